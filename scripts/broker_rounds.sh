#!/usr/bin/env bash
# Runs the outside tests of `rmqcore serve` (its faults, and real clients at it) many times in a row, as rounds.sh does, and prints
# each test that fails. The variables of single doses hold here too: RMQCORE_ROUND_SECONDS=120 makes the rounds of faults longer.
# Usage: [BUSY=2] scripts/broker_rounds.sh [ROUNDS=10]
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t clients < <(grep -lE 'ServerProcess|ServedBroker|interop\.served' tests/interop/test_*.py)
exec scripts/rounds.sh "${1:-10}" verify "$(echo tests/faults/test_served_*.py "${clients[@]}")"
