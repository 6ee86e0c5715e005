#!/usr/bin/env bash
# Installs every dependency at its lower bound in pyproject.toml and runs the tests on them.
# Usage: [PYTHON=python3.11] scripts/oldest.sh
set -euo pipefail
export RMQCORE_DOSE=${RMQCORE_DOSE:-verify}
cd "$(dirname "$0")/.."
venv=build/oldest
"${PYTHON:-python3}" -m venv --clear "$venv"
pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
"${pip[@]}" install --upgrade 'pip>=25.1'
"$venv/bin/python" - >"$venv/bounds.txt" <<'PYTHON'
import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *(item for extra in extras.values() for item in extra)]:
    if not requirement.startswith("rmqcore["):
        print(re.sub(r">=", "==", requirement))
PYTHON
cat "$venv/bounds.txt"
# Editable: processes that tests start find the sources here first, and these need the native code.
"${pip[@]}" install --group build --group test -r "$venv/bounds.txt" --editable '.[all]'
# The Pythons of these old versions warn about each other; what is asked here is whether the answers are right.
"$venv/bin/python" -P -m pytest -q -W default -n logical --maxprocesses 4 --dist loadfile \
    --ignore=tests/unit/cli tests/unit tests/conformance
