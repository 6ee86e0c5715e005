"""The first minutes of five people, each with the wheel in an empty environment, timed: python scripts/first_minutes.py [WHEEL].

Without WHEEL the one in dist/, which `make dist` makes. PEOPLE='engineer,tester' chooses. Exit code 1 where a step fails.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "tests" / "conformance" / "golden.tar.xz"
CLEAN, DAMAGED = "golden/basic/store", "golden/crash_flipped/input"

PUT = """
import rmqcore
from rmqcore import Message

with rmqcore.open("data/store") as store:
    put = store.put(Message("Orders", b"paid", tags="A", keys=["ORDER_1"]))
    put.raise_for_status()
    store.wait_dispatched()
    assert store.query("Orders", "ORDER_1").messages[0].body == b"paid"
"""
CODEC = """
import sys
from rmqcore import Message, codec

record = codec.encode(Message("T", b"body", tags="A"), phy_offset=0, queue_offset=0, store_timestamp_ms=1)
assert codec.decode(record).tags == "A" and codec.check(record) == len(record)
assert not {"pyarrow", "pyspark", "rich", "typer"} & {name.partition(".")[0] for name in sys.modules}
"""
SPARK = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").getOrCreate()
assert spark.read.format("rmqstore").load(sys.argv[1]).count() == 2000
"""
SESSION = """
import sys
import rmqcore.spark

spark = rmqcore.spark.session("local[2]")
assert rmqcore.spark.audit(spark, sys.argv[1]).count() == 1
"""
SERVED = """
from rmqcore.client import Producer


def test_orders(rocketmq_broker):
    rocketmq_broker.create_topic("Orders", queues=4)
    with Producer(rocketmq_broker.namesrv, group="orders") as producer:
        producer.send("Orders", b"paid", tags="A")
    (message,) = rocketmq_broker.messages("Orders")
    assert message.tags == "A"
"""


class Person:
    """Somebody with an empty environment in a folder of his own.

    Parameters
    ----------
    name : str
    folder : Path
    wheel : str
        What pip installs: the wheel, with extras.
    others : sequence of str
        Other packages.
    """

    def __init__(self, name: str, folder: Path, wheel: str, *others: str) -> None:
        self.name = name
        self.home = folder / name
        self.home.mkdir()
        self.bin = self.home / "env" / "bin"
        with self.timed(
            f"an environment, pip install {re.sub(r'^.*whl', 'rmqcore', wheel)} {' '.join(others)}"
        ):
            # With no pip of its own, which would bring packages that nobody asked for.
            run([sys.executable, "-m", "venv", "--without-pip", self.home / "env"], self.home)
            pip = [
                sys.executable,
                "-m",
                "pip",
                "--quiet",
                "--disable-pip-version-check",
                "--python",
                self.bin / "python",
            ]
            run([*pip, "install", wheel, *others], self.home)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Print how long something took."""
        began = time.perf_counter()
        yield
        print(f"{self.name:<10} {time.perf_counter() - began:7.2f} s  {what.strip()}", flush=True)

    def types(self, *words: str | Path, expected: int = 0, shown: str = "", says: str = "") -> None:
        """Run a program of the environment; it must end with this exit code and say that."""
        what = shown or " ".join(
            Path(word).name if isinstance(word, Path) else word for word in words
        )
        with self.timed(what):
            said = run([self.bin / words[0], *words[1:]], self.home, expected, env=self.bin)
        if says not in said:
            sys.exit(f"first_minutes: {what}: {says!r} is not in what it says:\n{said}")


def run(words: Sequence[object], folder: Path, expected: int = 0, env: Path | None = None) -> str:
    """Run a program away from the checkout, in an environment as its ``activate`` leaves it, and answer what it says."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    if env is not None:  # Spark looks for the data source with the first Python of PATH
        environment |= {"PATH": f"{env}:{environment['PATH']}", "VIRTUAL_ENV": str(env.parent)}
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != expected:
        call = " ".join(map(str, words))
        sys.exit(
            f"first_minutes: {call} answered {done.returncode}, not {expected}\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


def free_port() -> str:
    """Give a port that nobody has; 0 would mean no name server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def engineer(folder: Path, wheel: str) -> None:
    """A site engineer whose broker does not start."""
    one = Person("engineer", folder, f"{wheel}[cli]")
    clean, damaged = folder / CLEAN, folder / DAMAGED
    one.types("rmqcore", "fsck", clean, says='"exit_code": 0')
    one.types("rmqcore", "fsck", damaged, expected=2, says="204236")
    one.types(
        "rmqcore", "cat", clean, "--topic", "TopicBasicA", "--key", "key-0-0", says="TopicBasicA"
    )
    one.types("rmqcore", "salvage", damaged, one.home / "saved", expected=2, says="579")
    one.types("rmqcore", "fsck", one.home / "saved", says='"exit_code": 0')


def data(folder: Path, wheel: str) -> None:
    """A data engineer with terabytes of store files."""
    one = Person("data", folder, f"{wheel}[cli,spark]")
    store = folder / CLEAN
    one.types(
        "rmqcore",
        "export",
        store,
        "--format",
        "parquet",
        "-o",
        one.home / "out",
        says='"rows": 2000',
    )
    python = ("python", "-c")
    one.types(*python, SPARK, store, shown='spark.read.format("rmqstore").load(store).count()')
    damaged = folder / DAMAGED
    one.types(
        *python, SESSION, damaged, shown="rmqcore.spark.audit(rmqcore.spark.session(), store)"
    )


def developer(folder: Path, wheel: str) -> None:
    """A developer who wants an embedded durable log."""
    one = Person("developer", folder, wheel)
    one.types(
        "python",
        "-c",
        PUT,
        shown="with rmqcore.open(...) as store: store.put(...); store.query(...)",
    )


def author(folder: Path, wheel: str) -> None:
    """The author of a library who wants the codec."""
    one = Person("author", folder, wheel)
    one.types("python", "-c", CODEC, shown="from rmqcore import codec: encode, decode, check")


def tester(folder: Path, wheel: str) -> None:
    """A tester of a RocketMQ application."""
    one = Person("tester", folder, f"{wheel}[cli,broker]", "pytest")
    with one.timed("rmqcore serve STORE: until it is ready"):
        ports = ("--port", "0", "--namesrv-port", free_port())
        call = [str(one.bin / "rmqcore"), "serve", str(one.home / "store"), *ports]
        broker = subprocess.Popen(call, cwd=one.home, stdout=subprocess.PIPE, encoding="utf-8")
        assert broker.stdout is not None
        ready = broker.stdout.readline()
    with one.timed("Ctrl-C"):
        broker.terminate()
        broker.communicate(timeout=60)
    if broker.returncode or "broker 127.0.0.1:" not in ready:
        sys.exit(f"first_minutes: rmqcore serve said {ready!r} and answered {broker.returncode}")
    (one.home / "test_orders.py").write_text(SERVED, encoding="utf-8")
    options = ("-q", "-p", "no:cacheprovider", f"--basetemp={one.home / 'tmp'}", "test_orders.py")
    what = "pytest: a test with rocketmq_broker"
    one.types("python", "-m", "pytest", *options, shown=what, says="1 passed")


PEOPLE: dict[str, Callable[[Path, str], None]] = {
    one.__name__: one for one in (engineer, data, developer, author, tester)
}


def main() -> None:
    """Time all of them, or those that are named."""
    wheels = [Path(word) for word in sys.argv[1:]] or [*(ROOT / "dist").glob("*.whl")]
    if len(wheels) != 1:
        sys.exit(
            f"Usage: python scripts/first_minutes.py [WHEEL]; there are {len(wheels)} in dist/"
        )
    names = os.environ.get("PEOPLE", ",".join(PEOPLE)).split(",")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        wanted = (CLEAN, DAMAGED)
        parts = [member for member in archive.getmembers() if member.name.startswith(wanted)]
        archive.extractall(folder, parts)  # noqa: S202 - our own
        for name in names:
            PEOPLE[name](Path(folder), str(wheels[0].resolve()))
    print(f"{len(names)} people, {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
