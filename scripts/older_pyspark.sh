#!/usr/bin/env bash
# Runs the tests of rmqcore.spark with another PySpark than the newest.
# Usage: [PYTHON=python3.11] scripts/older_pyspark.sh VERSION...
set -euo pipefail
cd "$(dirname "$0")/.."
for version; do
    venv=build/pyspark-$version
    "${PYTHON:-python3}" -m venv --clear "$venv"
    pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
    "${pip[@]}" install --upgrade 'pip>=25.1'
    "${pip[@]}" install --group test --group notebook --group jre "pyspark==$version" '.[all]'
    # Python 3.12 and later warn about what the older ones call; what is asked here is whether the answers are right.
    "$venv/bin/python" -P -m pytest -q -W default -n logical --maxprocesses 4 --dist loadfile tests/spark
done
