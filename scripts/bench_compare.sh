#!/usr/bin/env bash
# The micro benches of bench/micro on the package of another commit and on this one, in turn and twice, by pytest-benchmark: the
# quickest round of each. Two columns of one side that differ tell how much of a difference is the machine's. The benches are this
# tree's on both sides.
# Usage: [PYTHON=python] scripts/bench_compare.sh REV [PYTEST ARGUMENT...]. PYTHON has the dependency groups `build` and `bench`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
root=$PWD
rev=${1:?usage: scripts/bench_compare.sh REV}
shift
commit=$(git rev-parse --verify --quiet "$rev^{commit}") || { echo "bench_compare: git knows no commit $rev" >&2; exit 64; }
there=$root/build/bench-compare/$commit
results=$root/build/bench-compare/results
log=$root/build/bench-compare/build.log

if [ ! -e "$there/.built" ]; then
    echo "== building ${commit:0:12} ($rev)"
    rm -rf "$there"
    mkdir -p "$there"
    git archive "$commit" | tar -x -C "$there"
    (cd "$there" && "$python" setup.py --quiet build_ext --inplace) >"$log" 2>&1 || { cat "$log"; exit 1; }
    touch "$there/.built"
fi
rm -rf "$there/bench" "$results"
mkdir -p "$there/bench" "$results"
cp -r bench/__init__.py bench/micro "$there/bench/"

run() { # NAME TREE PYTEST ARGUMENT...
    local name=$1 tree=$2
    shift 2
    echo "== $name"
    # -P and PYTHONPATH: the package of that tree, and no other.
    (cd "$results" && PYTHONPATH=$tree RMQCORE_BENCH_TREE=$tree "$python" -P -m pytest --rootdir "$tree" -c "$root/pyproject.toml" \
        -p no:cacheprovider -q --benchmark-only --benchmark-disable-gc --benchmark-warmup=on --benchmark-columns=median \
        --benchmark-json="$results/$name.json" "$@" "$tree/bench/micro") >"$results/$name.log" 2>&1 || { cat "$results/$name.log"; exit 1; }
}

for round in 1 2; do
    run "${commit:0:7}_$round" "$there" "$@"
    run "here_$round" "$root" "$@"
done
"$python" -m pytest_benchmark compare "$results/${commit:0:7}_1.json" "$results/here_1.json" "$results/${commit:0:7}_2.json" \
    "$results/here_2.json" --between min --sort fullname
