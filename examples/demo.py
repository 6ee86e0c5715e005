"""What `make demo` shows: stores of RocketMQ 5.5.0 are read, checked, saved and queried; a new one is written, one served; Spark.

The exit code is 0 only if every step did what it should.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import polars as pl

import rmqcore
import rmqcore.spark
from rmqcore import codec
from rmqcore.client import Producer, PullConsumer
from rmqcore.errors import CorruptMessageError
from rmqcore.testing.served_broker import ServedBroker

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "tests" / "conformance" / "golden.tar.xz"
OUT = ROOT / "demo-out"
CLEAN, DAMAGED = "golden/basic/store", "golden/crash_flipped/input"
RMQCORE = Path(sys.executable).parent / "rmqcore"

TOPICS = """
    select topic, count(*) as messages, count(distinct tags) as tags, sum(octet_length(body)) as body_bytes
    from store group by topic order by topic
"""
MESSAGES, SINGLE, LISTED = 1_000_000, 50_000, 150_000
SENT = 10_000
FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"
# Java's CommitLog files have 1 GiB. With smaller files Spark reads several at once.
FILE_SIZE = 64 << 20
# Messages with bodies of 128 bytes, in eight topics of four queues, each with a tag and a key.
ROWS = """
    select 'Orders' || n % 8 as topic, encode(repeat(md5(n::varchar), 4)) as body, (n // 8 % 4)::int as queue_id,
           ['created', 'paid', 'sent'][1 + n % 3] as tags, ['ORDER_' || n] as keys
    from range({}, {}) as numbers(n)
"""
DAYS = "select topic, count(*) as messages from read_parquet(?) group by topic order by topic"


def main() -> None:
    """Run all steps, each under its heading."""
    began = time.perf_counter()
    unpack()
    a_sick_store()
    parquet_sql_frame(OUT / CLEAN)
    heading(f"{MESSAGES:,} messages written by this process: put, put_many, put_arrow from a query")
    write(OUT / "written")
    heading("A backup, which a store in use gets too")
    command("backup", OUT / "written", OUT / "backup")
    heading(
        "Opened again: recovery had nothing to cut, every message is there, and one more is put"
    )
    reopen(OUT / "written")
    heading("What was written is sound: log, queues and index agree")
    command("fsck", OUT / "written")
    heading("What the backup lacks by now; exit code 2, for they differ")
    command("diff", OUT / "backup", OUT / "written", expected=2)
    heading("A broker and a name server on a new store; a producer and a consumer in this process")
    serve(OUT / "served")
    heading("Spark over what was written: audit, and statistics by topic and hour")
    spark(OUT / "written")
    heading("Only the codec: a message into the bytes of a record, and back")
    record()
    shutil.rmtree(OUT / "written")
    shutil.rmtree(OUT / "backup")
    seconds = time.perf_counter() - began
    print(f"\nAll of that took {seconds:.0f} s. The store of a million messages was removed;")
    print(f"the others, the Parquet files and Spark's log are in {OUT.name}/.")


def a_sick_store() -> None:
    """A store that a broker wrote, then one with a flipped bit: found, explained, and a sound store made of what is left."""
    heading("A store of RocketMQ 5.5.0, as rmqcore sees it")
    command("info", OUT / CLEAN)
    heading("A message by its key, out of the log itself")
    command("cat", OUT / CLEAN, "--topic", "TopicBasicA", "--key", "key-0-0")
    heading("Every record, queue entry and index entry against each other")
    command("fsck", OUT / CLEAN)
    heading("The same for a store with a flipped bit: exit code 2, and where it is")
    command("fsck", OUT / DAMAGED, expected=2)
    heading("What to do about it")
    command("doctor", OUT / DAMAGED, expected=2)
    heading("A sound store of every record that can be read; exit code 2, for one is lost")
    command("salvage", OUT / DAMAGED, OUT / "salvaged", expected=2)
    command("fsck", OUT / "salvaged")


def parquet_sql_frame(store: Path) -> None:
    """The same messages as Parquet files, by SQL and as a frame."""
    heading("Parquet, by topic and day")
    command("export", store, "--format", "parquet", "-o", OUT / "parquet")
    for path in sorted((OUT / "parquet").rglob("*.parquet")):
        print(f"{path.stat().st_size:9,d} bytes {path.relative_to(OUT)}")
    heading("SQL by DuckDB over the store itself: rmqcore.read(store).batches(), nothing exported")
    by_arrow = query(rmqcore.read(store))
    heading("A LazyFrame by Polars over the store itself: rmqcore.scan(store)")
    frame = rmqcore.scan(store)
    largest = pl.col("msg_size").max().alias("largest")
    tags = frame.group_by("tags").agg(pl.len().alias("messages"), largest).sort("tags")
    print(tags.collect())
    by_polars = frame.select(pl.len()).collect().item()
    by_parquet = duckdb.execute(DAYS, [str(OUT / "parquet" / "**" / "*.parquet")]).fetchall()
    if not by_arrow or by_arrow != by_parquet or by_polars != sum(rows for _, rows in by_arrow):
        sys.exit(
            f"demo: the answers differ: {by_arrow} by Arrow, {by_parquet} by Parquet, {by_polars} rows by Polars"
        )
    print(f"DuckDB over the store, DuckDB over Parquet and Polars agree on {by_polars:,} messages.")


def unpack() -> None:
    """Unpack both stores of the demo afresh."""
    shutil.rmtree(OUT, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(
            OUT, [m for m in archive.getmembers() if m.name.startswith((CLEAN, DAMAGED))]
        )


def heading(text: str) -> None:
    """Print a line that stands out between the outputs of programs."""
    print(f"\n== {text}", flush=True)


def command(*words: object, expected: int = 0) -> None:
    """Run `rmqcore WORDS`, shown as a user would type it, with the tables that a terminal gets."""
    call = [str(word).removeprefix(f"{ROOT}/") for word in words]
    print("$ rmqcore " + " ".join(call), flush=True)
    run = in_place if sys.stdout.isatty() else in_a_terminal
    code = run([str(RMQCORE), *call])
    if code != expected:
        sys.exit(f"demo: rmqcore {words[0]} ended with exit code {code}, not {expected}")


def in_place(call: list[str]) -> int:
    """Run a program in the terminal that the demo has."""
    return subprocess.run(call, cwd=ROOT, check=False).returncode


def in_a_terminal(call: list[str]) -> int:
    """Run a program in a terminal of its own, and print what it shows: into a pipe it would write JSON."""
    ours, theirs = pty.openpty()
    plain = {**os.environ, "TERM": "dumb", "NO_COLOR": "1"}
    with subprocess.Popen(call, cwd=ROOT, stdout=theirs, stderr=theirs, env=plain) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux's way to say that nobody writes to it any more
            while came := os.read(ours, 1 << 16):
                shown += came
    os.close(ours)
    print(shown.decode().replace("\r\n", "\n"), end="", flush=True)
    return process.returncode


def query(reader: rmqcore.StoreReader) -> list[tuple[str, int]]:
    """Print the topics of a store and answer how many messages each has."""
    with duckdb.connect() as connection:
        connection.register("store", reader.batches(["topic", "tags", "body"]))
        rows = connection.sql(TOPICS).fetchall()
    for topic, messages, tags, size in rows:
        print(f"{topic:<16} {messages:5d} messages {tags:3d} tags {size:9d} bytes of bodies")
    return [(topic, messages) for topic, messages, *_ in rows]


def write(root: Path) -> None:
    """Write a new store: messages by each kind of put, their queues and index; then ask both for the messages."""
    with duckdb.connect() as connection:
        rows = connection.sql(ROWS.format(0, SINGLE + LISTED)).fetchall()
        columns = connection.sql(ROWS.format(SINGLE + LISTED, MESSAGES)).to_arrow_table()
    messages = [rmqcore.Message(*row) for row in rows]
    # Without services no threads run, and each step is timed alone. A program leaves the argument out and calls put and get.
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=FILE_SIZE) as store:
        with rate("put, one by one", SINGLE):
            for message in messages[:SINGLE]:
                store.put(message)
        with rate("put_many, a list", LISTED):
            store.put_many(messages[SINGLE:]).raise_for_status()
        with rate("put_arrow, columns", columns.num_rows):
            store.put_arrow(columns).raise_for_status()
        with rate("flush to disk", MESSAGES):
            store.flush()
        with rate("dispatch to queues and index", MESSAGES):
            while store.dispatch_once():
                pass
        with rate("get, 32 at a time, with bodies", MESSAGES):
            bodies = sum(len(message.body) for message in everything(store))
        found = []
        with rate("query by key", 20_000):
            for n in range(0, MESSAGES, MESSAGES // 20_000):
                found += store.query(f"Orders{n % 8}", f"ORDER_{n}").messages
    if bodies != 128 * MESSAGES or len(found) != 20_000:
        sys.exit(f"demo: {bodies} bytes of bodies and {len(found)} of 20,000 keys came back")


def reopen(root: Path) -> None:
    """Open the store again, with services: its threads dispatch what is put."""
    began = time.perf_counter()
    with rmqcore.open(root, mapped_file_size_commit_log=FILE_SIZE) as store:
        seconds = time.perf_counter() - began
        queues = store.queues()
        total = sum(store.max_offset(*queue) for queue in queues)
        print(
            f"{total:,} messages in {len(queues)} queues after {seconds * 1000:.0f} ms, {store.recovery.cut_bytes} bytes cut"
        )
        put = store.put(rmqcore.Message("Orders0", b"one more", keys=["LAST"]))
        store.wait_dispatched(timeout=30)
        last = store.query("Orders0", "LAST").messages
        if total != MESSAGES or [message.phy_offset for message in last] != [put.phy_offset]:
            sys.exit(f"demo: {total} messages came back, and {len(last)} for the last key")


def serve(folder: Path) -> None:
    """Send messages to `rmqcore serve` and receive them, then check the store that it leaves."""
    folder.mkdir()
    began = time.perf_counter()
    with ServedBroker(folder) as broker:
        print(f"rmqcore serve: ready after {time.perf_counter() - began:.1f} s")
        bodies = [b"order %d" % n for n in range(SENT)]
        with Producer(broker.namesrv, group="demo") as producer:
            with rate("send, one by one", SENT // 10):
                for body in bodies[: SENT // 10]:
                    producer.send("Orders", body)
            with rate("send_many, 100 at a time", SENT - SENT // 10):
                for first in range(SENT // 10, SENT, 100):
                    producer.send_many("Orders", bodies[first : first + 100])
        with PullConsumer(broker.namesrv, "demo", consume_from=FROM_FIRST) as consumer:
            consumer.subscribe("Orders")
            received: list[bytes] = []
            with rate("poll", SENT):
                while len(received) < SENT and (came := consumer.poll(timeout=10)):
                    received += [message.body for message in came]
            consumer.commit()
        if sorted(received) != sorted(bodies):
            sys.exit(f"demo: {len(received)} messages came back of {SENT}")
    command("fsck", broker.store)


def spark(root: Path) -> None:
    """Run two jobs of `rmqcore.spark` in a local session; only their results leave the workers."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    print("Spark starts, with both jobs over the small store: 10 to 20 s.", flush=True)
    began = time.perf_counter()
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2}
    with errors_into(OUT / "spark.log"):  # for as long as Java runs, which inherits the place
        session = rmqcore.spark.session("local[2]", conf=conf)
    # The first jobs start Python workers and compile Spark's code, which the rates below shall not count.
    rmqcore.spark.run_audit(session, OUT / CLEAN)
    rmqcore.spark.topic_stats(session, OUT / CLEAN).collect()
    print(f"Spark {session.version} is ready after {time.perf_counter() - began:.1f} s.")
    audit = rmqcore.spark.run_audit(session, root)
    print(
        f"audit: {audit.records:,} records in {audit.splits} parts, {len(audit.damage)} damaged ranges; "
        f"{throughput(audit.records, audit.record_bytes, audit.seconds)}"
    )
    began = time.perf_counter()
    rows = rmqcore.spark.topic_stats(session, root).orderBy("topic", "hour").collect()
    seconds = time.perf_counter() - began
    print(f"{'topic':<10} {'hour (UTC)':<16} {'messages':>9} {'MB':>7} {'tags':>5} {'p99 ms':>7}")
    for row in rows:
        print(
            f"{row.topic:<10} {row.hour:%Y-%m-%d %H:%M} {row.messages:>9,} {row.bytes / 1e6:>7.1f} "
            f"{row.distinct_tags:>5} {row.latency_p99_ms:>7.0f}"
        )
    messages, size = sum(row.messages for row in rows), sum(row.bytes for row in rows)
    print(f"topic_stats: {throughput(messages, size, seconds)}")
    session.stop()
    written = MESSAGES + 1  # with the message that was put after the store was opened again
    if audit.damage or audit.records != written or messages != written:
        sys.exit(f"demo: Spark saw {audit.records} and {messages} messages of {written}")


@contextmanager
def errors_into(path: Path) -> Iterator[None]:
    """Let a file have what is written to stderr, also by programs that are started meanwhile; an exception goes its own way."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def record() -> None:
    """Encode a message, decode the record, and have a flipped bit found."""
    raw = codec.encode(
        rmqcore.Message("Orders", b"paid", tags="A", keys=["ORDER_1"]),
        phy_offset=0,
        queue_offset=0,
        store_timestamp_ms=1_700_000_000_000,
    )
    print(codec.decode(raw))
    try:
        codec.check(raw.replace(b"paid", b"pais"))
    except CorruptMessageError as error:
        print(f"with a bit flipped: {error}")
    else:
        sys.exit("demo: a flipped bit was not found")


def throughput(count: int, size: int, seconds: float) -> str:
    """Messages and bytes a second."""
    return f"{seconds:.1f} s, {count / seconds / 1e6:.2f} M rows/s, {size / seconds / 1e9:.2f} GB/s"


def everything(store: rmqcore.MessageStore) -> Iterator[rmqcore.MessageView]:
    """All messages of all queues, as a consumer asks for them."""
    for topic, queue_id in store.queues():
        offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        while offset < end:
            found = store.get(topic, queue_id, offset, 32)
            yield from found.messages
            offset = found.next_begin_offset


@contextmanager
def rate(what: str, count: int) -> Iterator[None]:
    """Print how long a step took, and its messages a second."""
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    pace = count / seconds
    shown = f"{pace / 1e6:7.2f} M/s" if pace > 100_000 else f"{pace:9,.0f}/s"
    print(f"{what:<32} {count:>9,} in {seconds:6.2f} s {shown}", flush=True)


if __name__ == "__main__":
    main()
