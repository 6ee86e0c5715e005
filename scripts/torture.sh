#!/usr/bin/env bash
# The doses of docs/reliability.md: hours. Usage: [PYTHON=python] [MINUTES=60] [TESTS=0] scripts/torture.sh
# TESTS=0 leaves out the tests, which the night runs in jobs of their own. Root makes the real power cuts too; others need sudo without a password for them.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
minutes=${MINUTES:-60}
place=$(mktemp -d "${TMPDIR:-/var/tmp}/rmqcore-torture.XXXXXX")
root=()
((EUID == 0)) || root=(sudo -n)
# Other choices every time; the line names them.
export RMQCORE_SEED=${RMQCORE_SEED:-$RANDOM}
echo "RMQCORE_SEED=$RMQCORE_SEED"
# Of the tests: each of their doses has a variable of its own, as RMQCORE_KILLS, which goes before.
export RMQCORE_DOSE=${RMQCORE_DOSE:-night}

echo "== real power cuts"
"${root[@]}" "$(command -v "$python")" -m rmqcore.testing.torture "$place/real" --part real-cuts --rounds 5
echo "== mixed work with kills, $minutes minutes"
"$python" -m rmqcore.testing.torture "$place/mixed" --part kills --minutes "$minutes"
echo "== directories that mean harm, $minutes minutes"
"$python" -m rmqcore.testing.torture "$place/strangers" --part strangers --minutes "$minutes"
echo "== all parts together"
"$python" -m rmqcore.testing.torture "$place/all" --minutes 10
rmdir "$place"
[[ ${TESTS:-1} != 0 ]] || exit 0
echo "== the tests in full doses"
"$python" -m pytest -n 2 --dist loadfile tests/faults tests/interop/test_differential_recovery.py
