#!/usr/bin/env bash
# The doses of docs/reliability.md: hours. Usage: [PYTHON=python] [MINUTES=60] scripts/torture.sh
# Root makes the real power cuts too; others need sudo without a password for them.
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
export RMQCORE_KILLS=1000 RMQCORE_CUTS=600 RMQCORE_CUT_SEEDS=6 RMQCORE_CALL_STRIDE=1 RMQCORE_FLIP_STRIDE=1 RMQCORE_DAMAGED=3000 RMQCORE_JAVA_DAMAGED=1000
export RMQCORE_SERVED_KILLS=200 RMQCORE_HOSTILE_SECONDS=1200

echo "== real power cuts"
"${root[@]}" "$(command -v "$python")" -m rmqcore.testing.torture "$place/real" --part real-cuts --rounds 5
echo "== mixed work with kills, $minutes minutes"
"$python" -m rmqcore.testing.torture "$place/mixed" --part kills --minutes "$minutes"
echo "== directories that mean harm, $minutes minutes"
"$python" -m rmqcore.testing.torture "$place/strangers" --part strangers --minutes "$minutes"
echo "== all parts together"
"$python" -m rmqcore.testing.torture "$place/all" --minutes 10
rmdir "$place"
echo "== the tests in full doses"
"$python" -m pytest -n 2 --dist loadfile tests/faults tests/interop/test_differential_recovery.py
