#!/usr/bin/env bash
# Builds dist/*.tar.gz and from it dist/*.whl, installs the wheel alone and tests it away from the checkout.
# Usage: [PYTHON=python] scripts/check_wheel.sh [TEST...]. PYTHON has the package `build` (dependency group dev).
# Without TEST: the tests that start the programs of the wheel. What the modules do, `make test` asks in the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
root=$PWD
tests=("$@")
((${#tests[@]})) || tests=(tests/unit/cli tests/unit/testing tests/unit/test_imports.py tests/conformance)
tests=("${tests[@]/#/$root/}")
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT

rm -rf dist
mkdir -p build
"$python" -m build --outdir dist . >build/dist.log 2>&1 || { cat build/dist.log; exit 1; } # the wheel comes from the sdist
ls -l dist
most=4000000 # bytes, a quarter above what it has; debug information would make it several times as large
size=$(wc -c <"$(echo dist/*.whl)")
[ "$size" -le "$most" ] || { echo "check_wheel: the wheel has $size bytes, more than $most" >&2; exit 1; }
listing=$(tar -tzf dist/*.tar.gz)
for name in tests/conformance/golden.tar.xz tests/support/oracle/records.py rmqcore/py.typed docs/architecture.md src/rmqcore/_native/kernels/format/layout.h src/rmqcore/_native/kernels/crc32/crc32.c LICENSE NOTICE; do
    grep -q "^[^/]*/$name\$" <<<"$listing" || { echo "check_wheel: the sdist lacks $name" >&2; exit 1; }
done

# The core alone: NumPy is all it brings.
"$python" -m venv "$away/core"
"$away/core/bin/pip" --quiet --disable-pip-version-check install dist/*.whl
cd "$away"
core/bin/python - "$root" <<'PYTHON'
import sys
from importlib.metadata import distributions, version
from pathlib import Path

import rmqcore
from rmqcore import Message, codec

assert Path(rmqcore.__file__).is_relative_to(Path.cwd() / "core"), rmqcore.__file__
assert version("rmqcore") == rmqcore.__version__
record = codec.encode(Message("Topic", b"body", tags="TagA"), phy_offset=0, queue_offset=0, store_timestamp_ms=1)
assert codec.decode(record).tags == "TagA"
package = Path(rmqcore.__file__).parent
assert (package / "py.typed").exists() and (package / "_native" / "scan" / "scan.pyi").exists()
sources = {path.relative_to(package).as_posix() for end in ("c", "pyx") for path in package.rglob(f"*.{end}")}
assert sources == {"testing/shim/calls.c", "testing/shim/record.c"}, f"sources in the wheel: {sources}"
checkout = Path(sys.argv[1])
compiled = {path.relative_to(checkout / "src/rmqcore").with_suffix("") for path in (checkout / "src").rglob("*.pyx")}
plain = {path.relative_to(checkout / "rmqcore").with_suffix("") for path in (checkout / "rmqcore").rglob("*.py")}
import pyspark_rmqstore  # without PySpark too

beside = {path.name for path in Path(pyspark_rmqstore.__file__).parent.glob("*.py")}
assert beside == {path.name for path in (checkout / "pyspark_rmqstore").glob("*.py")}, f"pyspark_rmqstore in the wheel: {beside}"
wanted = compiled | plain
present = {path.relative_to(package).parent / path.name.partition(".")[0] for end in ("py", "so") for path in package.rglob(f"*.{end}")}
assert wanted == present, f"the wheel lacks {wanted - present} and has {present - wanted} too much"
names = {d.metadata["Name"].lower() for d in distributions()} - {"pip", "setuptools", "wheel"}
assert names == {"rmqcore", "numpy"}, names
PYTHON

# With everything: the command line and the tests, which must not find the checkout.
core/bin/pip --quiet --disable-pip-version-check install --upgrade 'pip>=25.1'
core/bin/pip --quiet --disable-pip-version-check install "$(echo "$root"/dist/*.whl)[all]" \
    --group "$root/pyproject.toml:test" --group "$root/pyproject.toml:demo"
core/bin/rmqcore --version
core/bin/python -P -m pytest --rootdir "$root" -c "$root/pyproject.toml" -p no:cacheprovider -q \
    -n logical --maxprocesses 4 --dist loadfile "${tests[@]}"
