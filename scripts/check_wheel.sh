#!/usr/bin/env bash
# Builds dist/*.tar.gz and from it dist/*.whl, both a second time elsewhere with the same bytes; installs the wheel alone, with each
# extra alone and with everything, tests it away from the checkout, and builds examples/cython_consumer against it. The bill of
# materials goes to build/rmqcore.cdx.json.
# Usage: [PYTHON=python] scripts/check_wheel.sh [EXTRA...]. PYTHON has the dependency group `release`.
# EXTRA: these extras only, of those that scripts/wheel_extra.py knows; `none` for the core alone. QUICK=1 leaves out the second build,
# the tests of the core alone, and half of those of the command line, which take most of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
root=$PWD
extras=("$@")
# A plot and a broker are made by the command.
((${#extras[@]})) || extras=(arrow compress rocksdb polars duckdb pandas cli cli,plot cli,broker spark delta iceberg)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# The time of the commit stands for that of the build.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

say() { echo "== $*"; }
fail() { echo "check_wheel: $*" >&2; exit 1; }

build() { # FROM TO
    "$python" -m build --outdir "$2" "$1" >"$root/build/dist.log" 2>&1 || { cat "$root/build/dist.log"; exit 1; }
}

environment() { # NAME REQUIREMENT...: with no pip of its own, which would bring packages that nobody asked for
    local name=$1
    shift
    "$python" -m venv --without-pip "$away/$name"
    "$python" -m pip --quiet --python "$away/$name/bin/python" install "$@"
    "$python" -m pip --quiet --python "$away/$name/bin/python" check
}

say "the sdist, and the wheel from it"
rm -rf dist
mkdir -p build
build . dist
ls -l dist
wheel=$(echo "$root"/dist/*.whl)
most=4600000 # bytes, a tenth above what it has; debug information would make it several times as large
size=$(wc -c <"$wheel")
[ "$size" -le "$most" ] || fail "the wheel has $size bytes, more than $most"
listing=$(tar -tzf dist/*.tar.gz)
for name in tests/conformance/golden.tar.xz tests/support/oracle/records.py rmqcore/py.typed docs/architecture.md src/rmqcore/_native/format/layout.h src/rmqcore/_native/crc32/crc32.c rmqcore/c_api/__init__.pxd LICENSE NOTICE SECURITY.md; do
    grep -q "^[^/]*/$name\$" <<<"$listing" || fail "the sdist lacks $name"
done
"$python" -m twine check --strict dist/*

if [[ ${QUICK:-} != 1 ]]; then
    say "both again, from the sdist: the same bytes"
    mkdir "$away/unpacked"
    tar -xzf dist/*.tar.gz -C "$away/unpacked" --strip-components 1
    (cd "$away/unpacked" && rm -rf PKG-INFO setup.cfg ./*.egg-info) # which setuptools adds to an sdist
    build "$away/unpacked" "$away/again"
    for file in dist/*; do
        cmp "$file" "$away/again/${file##*/}" || fail "a second build of ${file##*/} has other bytes"
    done
fi

say "the core alone: NumPy is all it brings"
environment core "$wheel"
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
debug = [path.name for path in package.rglob("*.so") if any(mark in path.read_bytes() for mark in (b".debug_info", b"__DWARF"))]
assert not debug, f"debug information in {debug}"
names = {d.metadata["Name"].lower() for d in distributions()}
assert names == {"rmqcore", "numpy"}, names
PYTHON
if [[ ${QUICK:-} != 1 ]]; then
    "$python" -m pip --quiet --python core/bin/python install --group "$root/pyproject.toml:wheel"
    PYTHON=core/bin/python "$root/scripts/core_tests.sh" "$root"
fi

say "an extension of another project, built against the wheel"
environment consumer "$wheel" --group "$root/pyproject.toml:build"
cp -R "$root/examples/cython_consumer" "$away/project"
"$python" -m pip --quiet --python consumer/bin/python install --no-build-isolation --no-deps "$away/project"
consumer/bin/python -P "$away/project/check.py"

for extra in "${extras[@]}"; do
    [ "$extra" != none ] || exit 0
    say "the extra $extra alone"
    environment "$extra" "$wheel[$extra]"
    mkdir "$away/try-$extra"
    "$extra/bin/python" -P "$root/scripts/wheel_extra.py" "${extra#cli,}" "$away/try-$extra" 2>"$away/said" || { cat "$away/said"; fail "extra $extra"; }
    rm -rf "${away:?}/$extra"
done

say "everything: the command line and its tests, which must not find the checkout"
environment all "$wheel[all]"
version=$(all/bin/python -c 'from importlib.metadata import version; print(version("rmqcore"))')
sed "s/^dynamic = \[\"version\"\]$/version = \"$version\"/" "$root/pyproject.toml" >pyproject.toml # the bill reads no code
"$python" -m cyclonedx_py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
    --output-file "$root/build/rmqcore.cdx.json" all/bin/python
"$python" -m pip --quiet --python all/bin/python install --group "$root/pyproject.toml:test" --group "$root/pyproject.toml:demo"
all/bin/rmqcore --version
tests=("$root"/tests/{unit/cli,unit/testing,unit/test_imports.py,conformance})
if [[ ${QUICK:-} == 1 ]]; then # what may be missing in a wheel: verbs, their pages, the plugin of pytest
    tests=("$root"/tests/{unit/cli/test_{usage,docs,cat,stats_verb,doctor_verb,rebuild_verb,retention_verb}.py,unit/test_imports.py,conformance/test_{golden,model}.py,unit/testing/test_served_broker.py})
else
    export RMQCORE_DOSE=${RMQCORE_DOSE:-verify}
fi
all/bin/python -P -m pytest --rootdir "$root" -c "$root/pyproject.toml" -p no:cacheprovider -q \
    -n logical --maxprocesses 4 --dist loadfile "${tests[@]}"
