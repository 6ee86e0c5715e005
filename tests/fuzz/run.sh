#!/bin/sh
# Builds the fuzz targets with AddressSanitizer and UBSan and runs each for SECONDS (default 60), two at a time.
# Usage: tests/fuzz/run.sh [SECONDS] [TARGET...]. Exit code 1 on a finding; the input that caused it stays in build/fuzz/TARGET.
# FUZZ_SEED in the environment fixes the inputs that are tried.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
targets=${*:-record scan split properties message_batch text cq index mapped_index checkpoint arrow pull send}
cc=${FUZZ_CC:-clang}
kernels=src/rmqcore/_native
out=build/fuzz

command -v "$cc" >/dev/null || { echo "fuzz: $cc is not installed (it needs libFuzzer: clang and its run-time)" >&2; exit 1; }

flags="-std=gnu11 -O1 -g -Wall -Wextra -fno-sanitize-recover=undefined -I$kernels"

build_kernels() { # once, for all targets: the linker takes what a target needs
    mkdir -p "$out/kernels"
    rm -f "$out/kernels/"*
    for file in "$kernels"/*/*.c; do
        # shellcheck disable=SC2086
        "$cc" $flags -fsanitize=fuzzer-no-link,address,undefined -c "$file" -o "$out/kernels/$(basename "$file" .c).o"
    done
    ar rcs "$out/kernels/libkernels.a" "$out/kernels/"*.o
}

build() {
    [ -e "tests/fuzz/fuzz_$1.c" ] || { echo "fuzz: there is no target $1" >&2; exit 64; }
    mkdir -p "$out/$1/corpus"
    # shellcheck disable=SC2086
    "$cc" $flags -fsanitize=fuzzer,address,undefined "tests/fuzz/fuzz_$1.c" "$out/kernels/libkernels.a" -o "$out/fuzz_$1"
}

fuzz() {
    # Values in the length fields matter more than new edges: -use_value_profile. Long inputs only cost speed.
    "$out/fuzz_$1" -max_total_time="$seconds" -max_len=2048 -timeout=10 -rss_limit_mb=1024 -use_value_profile=1 \
        ${FUZZ_SEED:+-seed="$FUZZ_SEED"} -print_final_stats=1 -artifact_prefix="$out/$1/" "$out/$1/corpus" "$out/seeds/$1" >"$out/$1.log" 2>&1
}

"${PYTHON:-python3}" tests/fuzz/seeds.py "$out/seeds"
build_kernels
for target in $targets; do
    build "$target"
done

failed=0
report() { # TARGET PID
    if wait "$2"; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$1.log")
        rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$out/$1.log")
        echo "fuzz $1: $runs runs, $rate runs/s, no finding"
    else
        echo "fuzz $1: FINDING, see $out/$1.log"
        tail -n 40 "$out/$1.log"
        failed=1
    fi
}

before= before_pid=
for target in $targets; do
    fuzz "$target" &
    pid=$!
    if [ -n "$before" ]; then
        report "$before" "$before_pid"
        report "$target" "$pid"
        before=
    else
        before=$target before_pid=$pid
    fi
done
[ -z "$before" ] || report "$before" "$before_pid"
exit $failed
