#!/usr/bin/env bash
# Runs the tests of rmqcore.spark with other versions of PySpark: of each line that is named (4.0, 4.2.1, 4) the newest release.
# Usage: [PYTHON=python3.11] scripts/older_pyspark.sh LINE...
set -euo pipefail
cd "$(dirname "$0")/.."
# What is tested is installed: the sources beside it, which no native code was built for, must not come first anywhere.
export PYTHONSAFEPATH=1 RMQCORE_DOSE=${RMQCORE_DOSE:-verify}
for line; do
    venv=build/pyspark-$line
    "${PYTHON:-python3}" -m venv --clear "$venv"
    pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
    "${pip[@]}" install --upgrade 'pip>=25.1'
    # protobuf: the client of Spark Connect in PySpark 4.0 was made for 5, and what is made for 5 runs with 5 and 6.
    "${pip[@]}" install --group test --group notebook --group demo --group jre "pyspark==$line.*" 'protobuf<7' '.[all]'
    "$venv/bin/python" -c 'import pyspark; print("PySpark", pyspark.__version__)'
    # Python 3.12 and later warn about what the older ones call; what is asked here is whether the answers are right.
    "$venv/bin/python" -P -m pytest -q -W default -n logical --maxprocesses 4 --dist loadfile tests/spark
done
