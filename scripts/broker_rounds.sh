#!/usr/bin/env bash
# Every scenario of the broker against Java's and ours, some rounds in a row; the first failure ends it.
# Usage: [PYTHON=python] [WORKERS=4] scripts/broker_rounds.sh [ROUNDS=20]. Most of the time is waiting. It needs what `make test` needs: Java, Maven and Go.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-20}
interop=(sends pulls mqadmin consumers client takeover broker_tables other_languages)
faults=(hostile_network served_kills served_limits served_end)
tests=("${interop[@]/#/tests/interop/test_}" "${faults[@]/#/tests/faults/test_}")
for ((round = 1; round <= rounds; round++)); do
    began=$SECONDS
    "${PYTHON:-python3}" -m pytest -q -p no:cacheprovider -n "${WORKERS:-4}" --dist loadfile "${tests[@]/%/.py}"
    echo "== round $round of $rounds: $((SECONDS - began)) s"
done
