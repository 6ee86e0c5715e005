#!/usr/bin/env bash
# Runs a command of the tests many times in a row beside loops that keep the processor busy: a test that fails once in ten rounds is a
# defect. Each round has examples and RMQCORE_SEED of its own; the variable, if it is set, holds for all rounds. The output of a round that
# fails stays in build/rounds; the exit code is 1 then.
# Usage: [BUSY=2] scripts/rounds.sh [ROUNDS=10] [TARGET=verify] [PYTEST_ARGS]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10}
target=${2:-verify}
arguments=${3:-}
mkdir -p build/rounds
busy=()
trap '((${#busy[@]} == 0)) || kill "${busy[@]}"' EXIT
trap 'exit 130' INT TERM
for ((i = 0; i < ${BUSY:-2}; i++)); do
    nice bash -c 'while :; do :; done' &
    busy+=($!)
done
given_seed=${RMQCORE_SEED:-}
failed=0
for ((round = 1; round <= rounds; round++)); do
    began=$SECONDS
    log=build/rounds/$target-$round.log
    export RMQCORE_SEED=${given_seed:-$RANDOM}
    if make "$target" PYTEST_ARGS="$arguments" >"$log" 2>&1; then
        echo "round $round of $rounds: passed in $((SECONDS - began)) s"
        rm "$log"
    else
        failed=1
        echo "round $round of $rounds: FAILED in $((SECONDS - began)) s with RMQCORE_SEED=$RMQCORE_SEED, see $log"
        grep -E '^(FAILED|ERROR) |same examples again' "$log" || true
    fi
done
exit $failed
