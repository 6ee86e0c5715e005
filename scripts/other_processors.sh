#!/usr/bin/env bash
# Compiles the C tests of the kernels for AArch64 (little-endian, its own CRC instructions) and s390x (big-endian) and
# runs them under qemu. Needs Debian's gcc-aarch64-linux-gnu, gcc-s390x-linux-gnu and qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."
native=src/rmqcore/_native
out=build/processors
kernels=("$native"/crc32/*.c "$native"/format/{record,properties,utf8,text,jhash}.c)
warnings=(-std=c11 -Wall -Wextra -Wconversion -Wsign-compare -Werror)
mkdir -p "$out"

for processor in aarch64 s390x; do
    for name in record properties utf8 crc32; do
        program=$out/$name-$processor
        # NO_ZLIB: the other processor's zlib is not at hand; the test has a CRC bit by bit instead.
        "$processor-linux-gnu-gcc" "${warnings[@]}" -O2 -static -DNO_ZLIB "-I$native" \
            "${kernels[@]}" "tests/native_c/test_$name.c" -o "$program"
        "qemu-$processor" "$program" >"$program.log" || { cat "$program.log"; exit 1; }
        echo "$processor: $name: $(tail -n 1 "$program.log")"
    done
done
grep -q '^armv8: ok' "$out/crc32-aarch64.log" # and not only the kernel that runs everywhere
