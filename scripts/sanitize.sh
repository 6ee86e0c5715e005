#!/usr/bin/env bash
# Builds the extensions with AddressSanitizer and UBSan into build/sanitize and runs the tests that feed them bytes.
# Usage: [PYTHON=python] scripts/sanitize.sh [PYTEST ARGUMENT...]. Needs gcc with libasan and libubsan (Linux).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
library=$PWD/build/sanitize/lib

# The interpreter itself is not instrumented, so both run-times must be there before it starts.
preload=
for name in libasan.so libubsan.so; do
    path=$(gcc -print-file-name="$name")
    [[ $path == /* ]] || { echo "sanitize: gcc has no $name" >&2; exit 1; }
    preload+="$path "
done

RMQCORE_SANITIZE=1 "$python" setup.py --quiet build --build-base build/sanitize --build-lib "$library"

# No leak check: the interpreter leaves much behind on purpose.
# protect_shadow_gap: lets the tests' own sanitized C programs start under the preloaded run-time.
export LD_PRELOAD=$preload PYTHONPATH=$library
export ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# -P: the checkout must not get in front of the sanitized build.
loaded=$("$python" -P -c 'import rmqcore._native.format.codec as codec; print(codec.__file__)')
[[ $loaded == "$library"/* ]] || { echo "sanitize: $loaded was imported, not a module of $library" >&2; exit 1; }

# Which tests these are, tests/conftest.py says. Not what forks a process with threads: AddressSanitizer of GCC 12 leaves the lock of its allocator to the child as it is, and a
# child hung for an hour in a malloc, because a thread that it does not have held that lock.
sanitized() { # ALLOCATOR TEST...
    PYTHONMALLOC=$1 "$python" -P -m pytest -m sanitized -n logical --maxprocesses 4 --dist loadfile "${@:2}" "${arguments[@]}"
}
arguments=("$@")
# malloc instead of Python's own allocator: every object is a block of its own, with red zones around it. That doubles what a test takes, so that it is for those
# whose bytes are small objects; the others give native code mapped files and long buffers, which Python's allocator leaves to malloc. At night all have it.
objects=(tests/property tests/native_c tests/unit/{broker,c_api,codec,native,remoting})
if [[ ${RMQCORE_DOSE:-} == night ]]; then
    sanitized malloc tests/property tests/unit tests/native_c
else
    sanitized malloc "${objects[@]}"
    sanitized pymalloc tests/unit "${objects[@]/#/--ignore=}"
fi
