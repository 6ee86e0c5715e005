#!/usr/bin/env bash
# The tests of an installed wheel that need nothing but NumPy and the dependency group `wheel`: codec, reading, writing, recovery.
# cibuildwheel runs them for each system and Python, and scripts/check_wheel.sh here. Start it in a folder that is not the checkout.
# Usage: [PYTHON=python] core_tests.sh PROJECT [PYTEST ARGUMENT...]
set -euo pipefail
project=$1
shift
tests=$project/tests
files=()
for file in "$tests"/property/test_*.py "$tests"/unit/native/test_*.py "$tests"/unit/disk/*.py "$tests"/unit/engine/recovery/*.py \
    "$tests"/unit/codec/test_codec.py "$tests"/unit/codec/test_codec_hostile.py "$tests"/unit/codec/test_message.py "$tests"/conformance/test_golden.py "$tests"/conformance/test_model.py; do
    case $file in
        */test_retention.py | */test_quick_sends.py) ;; # a third of all the time, for what no system does otherwise
        *)
            # What an extra brings has its own check.
            if [[ $file == */test_* ]] && ! grep -qE 'pyarrow|polars|typer|duckdb|lz4|zstandard|matplotlib|rmqcore\.cli' "$file"; then
                files+=("$file")
            fi
            ;;
    esac
done
((${#files[@]} > 20)) || { echo "core_tests: only ${#files[@]} files with tests in $tests" >&2; exit 1; }
export RMQCORE_DOSE=${RMQCORE_DOSE:-verify}
exec "${PYTHON:-python}" -P -m pytest --rootdir "$project" -c "$project/pyproject.toml" -p no:cacheprovider -q "$@" "${files[@]}"
