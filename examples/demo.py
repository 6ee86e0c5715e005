"""What `make demo` shows: a store that Apache RocketMQ 5.5.0 wrote, looked at, checked, exported and queried.

Exit code 0 only if every step did what it should.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import duckdb
import polars as pl

import rmqcore

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "tests" / "conformance" / "golden.tar.xz"
OUT = ROOT / "demo-out"
CLEAN, DAMAGED = "golden/basic/store", "golden/crash_flipped/input"
RMQCORE = Path(sys.executable).parent / "rmqcore"

TOPICS = """
    select topic, count(*) as messages, count(distinct tags) as tags, sum(octet_length(body)) as body_bytes
    from store group by topic order by topic
"""
DAYS = "select topic, count(*) as messages from read_parquet(?) group by topic order by topic"


def main() -> None:
    """All steps, one heading each."""
    unpack()
    store = OUT / CLEAN
    heading("The store, as rmqcore sees it")
    command("info", store, "--format", "table")
    heading("Every record, queue entry and index entry against each other")
    command("fsck", store, "--format", "table")
    heading("The same for a store with a flipped bit: exit code 2, and where it is")
    command("fsck", OUT / DAMAGED, "--format", "table", expected=2)
    heading("Parquet, by topic and day")
    command("export", store, "--format", "parquet", "-o", OUT / "parquet")
    for path in sorted((OUT / "parquet").rglob("*.parquet")):
        print(f"{path.stat().st_size:9d} {path.relative_to(OUT)}")
    heading("SQL by DuckDB over the store itself: rmqcore.read(store).batches(), nothing exported")
    by_arrow = query(rmqcore.read(store))
    heading("A frame of the same columns by Polars")
    frame = pl.DataFrame(
        rmqcore.read(store).batches(["topic", "queue_id", "store_timestamp_ms", "keys"])
    )
    print(frame.head(3))
    by_parquet = duckdb.execute(DAYS, [str(OUT / "parquet" / "**" / "*.parquet")]).fetchall()
    if not by_arrow or by_arrow != by_parquet or frame.height != sum(rows for _, rows in by_arrow):
        sys.exit(
            f"demo: the answers differ: {by_arrow} by Arrow, {by_parquet} by Parquet, {frame.height} rows by Polars"
        )
    print(
        f"\nDuckDB over Arrow, DuckDB over Parquet and Polars agree on {frame.height} messages. Files: {OUT.name}/"
    )


def unpack() -> None:
    """Both stores of the demo, fresh."""
    shutil.rmtree(OUT, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(
            OUT, [m for m in archive.getmembers() if m.name.startswith((CLEAN, DAMAGED))]
        )


def heading(text: str) -> None:
    """A line that stands out between the outputs of programs."""
    print(f"\n== {text}", flush=True)


def command(*words: object, expected: int = 0) -> None:
    """Run `rmqcore WORDS`, shown as a user would type it."""
    call = [str(word).removeprefix(f"{ROOT}/") for word in words]
    print("$ rmqcore " + " ".join(call), flush=True)
    code = subprocess.run([RMQCORE, *call], cwd=ROOT, check=False).returncode
    if code != expected:
        sys.exit(f"demo: rmqcore {words[0]} ended with exit code {code}, not {expected}")


def query(reader: rmqcore.StoreReader) -> list[tuple[str, int]]:
    """Print the topics of a store and answer how many messages each has."""
    with duckdb.connect() as connection:
        connection.register("store", reader.batches(["topic", "tags", "body"]))
        rows = connection.sql(TOPICS).fetchall()
    for topic, messages, tags, size in rows:
        print(f"{topic:<16} {messages:5d} messages {tags:3d} tags {size:9d} bytes of bodies")
    return [(topic, messages) for topic, messages, *_ in rows]


if __name__ == "__main__":
    main()
