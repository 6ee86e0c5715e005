#!/bin/sh
# Builds the fuzz targets with AddressSanitizer and UBSan and runs each for SECONDS (default 60), two at a time.
# Usage: tests/fuzz/run.sh [SECONDS] [TARGET...]. Exit code 1 on a finding; the input that caused it stays in build/fuzz/TARGET.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
targets=${*:-record scan split properties cq index index_put checkpoint arrow}
cc=${FUZZ_CC:-clang}
native=src/rmqcore/_native
out=build/fuzz
record="record.c properties.c utf8.c text.c jhash.c $(cd $native && echo crc32*.c)"

command -v "$cc" >/dev/null || { echo "fuzz: $cc is not installed (it needs libFuzzer: clang and its run-time)" >&2; exit 1; }

sources() {
    case $1 in
        record) echo "$record" ;;
        scan) echo "$record resync.c filter.c topics.c batch.c columns.c" ;;
        split) echo "$record resync.c split.c" ;;
        properties) echo "properties.c utf8.c jhash.c" ;;
        cq) echo "cq_bulk.c" ;;
        index) echo "index_file.c jhash.c utf8.c" ;;
        index_put) echo "index_put.c index_file.c jhash.c utf8.c" ;;
        checkpoint) echo "checkpoint.c" ;;
        arrow) echo "$record filter.c queue_offsets.c append.c arrow_import.c arrow_rows.c" ;;
        *) echo "fuzz: there is no target $1" >&2; exit 64 ;;
    esac
}

build() {
    mkdir -p "$out/$1/corpus"
    files=$(sources "$1") # an unknown name ends the script here
    # shellcheck disable=SC2046,SC2086
    "$cc" -std=gnu11 -O1 -g -Wall -Wextra -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
        -I$native $(for file in $files; do echo "$native/$file"; done) "tests/fuzz/fuzz_$1.c" -o "$out/fuzz_$1"
}

fuzz() {
    # Values in the length fields matter more than new edges: -use_value_profile. Long inputs only cost speed.
    "$out/fuzz_$1" -max_total_time="$seconds" -max_len=2048 -timeout=10 -rss_limit_mb=1024 -use_value_profile=1 \
        -print_final_stats=1 -artifact_prefix="$out/$1/" "$out/$1/corpus" "$out/seeds/$1" >"$out/$1.log" 2>&1
}

"${PYTHON:-python3}" tests/fuzz/seeds.py "$out/seeds"
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
