#!/usr/bin/env bash
# What .github/workflows/wheels.yml does to a tag, but for other systems, signatures and the upload; after `make dist`, which has
# built and checked dist/. Goes through all steps and says at the end which of them a release would stop at.
# Usage: [PYTHON=python] scripts/release_dry_run.sh [TAG]. PYTHON has the dependency group `release`.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
stops=()
step() { # NAME COMMAND...
    echo "== $1"
    "${@:2}" || stops+=("$1")
}

clean() {
    local changed
    changed=$(git status --porcelain) && [ -z "$changed" ] && return
    printf '%s\n' "not committed, so not in the release:" "$changed" >&2
    return 1
}

wheels() { # what cibuildwheel would build from the sdist, system by system
    local system
    for system in "linux x86_64" "linux aarch64" "macos arm64" "macos x86_64"; do
        # shellcheck disable=SC2086 # two words
        set -- $system
        "$python" -m cibuildwheel --print-build-identifiers --platform "$1" --archs "$2" dist/*.tar.gz || return
    done
}

materials() { # the bill names the release and what it needs
    "$python" - <<'PYTHON'
import json
from pathlib import Path

bill = json.loads(Path("build/rmqcore.cdx.json").read_text(encoding="utf-8"))
names = {component["name"].lower() for component in bill["components"]}
release = bill["metadata"]["component"]
assert release["name"] == "rmqcore", release
assert Path(f"dist/rmqcore-{release['version']}.tar.gz").exists(), release
assert {"numpy", "pyarrow", "pyspark"} <= names, names
print(f"build/rmqcore.cdx.json: {len(names)} packages")
PYTHON
}

step "tag, version, CHANGELOG and URLs" "$python" scripts/release_check.py "$@"
step "nothing uncommitted" clean
step "the wheels of the workflow" wheels
step "the bill of materials" materials
step "the files" "$python" -m twine check --strict dist/*
echo "== not tried here: the other systems, the signatures, the upload of"
sha256sum dist/*
if ((${#stops[@]})); then
    printf 'release_dry_run: a release would stop at: %s\n' "${stops[@]}" >&2
    exit 1
fi
