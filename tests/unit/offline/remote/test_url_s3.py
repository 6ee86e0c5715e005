"""Stores in a real S3 server: reader, fsck and the command line, by options and by the environment; and what it refuses."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from support.cli.cli_runs import COMMAND
from support.eventually import eventually
from support.remote.s3_server import BUCKET, S3Server, s3_server
from support.stores.store_maker import MadeStore, make_store, sample_records

import rmqcore
from rmqcore.errors import NotAStoreError, RemoteChangedError, RemoteStorageError
from rmqcore.offline.reader import StoreReader

SECRET = "the-secret-key"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def s3fs_options(server: S3Server) -> dict[str, Any]:
    """As users of s3fs have them."""
    return {
        "key": server.storage["access_key"],
        "secret": server.storage["secret_key"],
        "client_kwargs": {
            "endpoint_url": f"http://{server.endpoint}",
            "region_name": server.storage["region"],
        },
    }


def environment(server: S3Server, tmp: Path) -> dict[str, str]:
    """As every program of AWS takes it."""
    return os.environ | {
        "AWS_ACCESS_KEY_ID": server.storage["access_key"],
        "AWS_SECRET_ACCESS_KEY": server.storage["secret_key"],
        "AWS_REGION": server.storage["region"],
        "AWS_ENDPOINT_URL": f"http://{server.endpoint}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "TMPDIR": str(tmp),
    }


def small_store(count: int) -> MadeStore:
    """Few files: ten thousand of them take the server a minute."""
    return make_store(
        sample_records(count),
        log_file_size=10 << 20,
        cq_file_entries=10_000,
        index_capacity=200_000,
    )


def told(reader: StoreReader) -> tuple[list[bytes], list[Any], list[Any], list[Any]]:
    queues = [{**queue.as_dict(), "disk_bytes": 0} for queue in reader.queues()]
    rows = [bytes(view.raw) for view in reader.messages()]
    return rows, reader.damage, queues, reader.index_files()


@pytest.mark.parametrize("case", ["basic", "crash_flipped"])
def test_reader_and_fsck(server: S3Server, golden: Path, case: str) -> None:
    root = next(path.parent for path in sorted(golden.glob(f"{case}/*/commitlog")))
    url = server.put(root, case)
    for options in (server.storage, s3fs_options(server)):
        with rmqcore.read(url, storage_options=options) as reader:
            assert SECRET not in repr((reader, reader.path, reader.log_files()))
            assert told(reader) == told(rmqcore.read(root))
    report, local = rmqcore.fsck(url, storage_options=server.storage), rmqcore.fsck(root)
    assert report.path == url
    assert {**report.as_dict(), "path": "", "seconds": 0} == {**local.as_dict(), "path": "", "seconds": 0}  # fmt: skip
    assert (report.exit_code == 2) == (case != "basic")


@pytest.mark.large
def test_several_ranges_and_a_store_in_a_bucket_s_root(server: S3Server, tmp_path: Path) -> None:
    root = small_store(40_000).write(tmp_path / "big")
    server.filesystem().create_dir("whole-bucket")
    for path in root.rglob("*"):
        if path.is_file():
            with server.filesystem().open_output_stream(f"whole-bucket/{path.relative_to(root)}") as out:  # fmt: skip
                out.write(path.read_bytes())
    with rmqcore.read("s3://whole-bucket", storage_options=server.storage) as reader:
        assert told(reader) == told(rmqcore.read(root))


# ---- the command line -------------------------------------------------------------------------------


def run(server: S3Server, tmp: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        env=environment(server, tmp),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_environment_has_the_keys(server: S3Server, golden: Path, own_tmp: Path) -> None:
    root = golden / "basic" / "store"
    url = server.put(root, "environment")
    done = run(server, own_tmp, "cat", url, "--limit", "50")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(server, own_tmp, "cat", str(root), "--limit", "50").stdout


def test_options_go_before_the_environment(server: S3Server, golden: Path, own_tmp: Path) -> None:
    url = server.put(golden / "basic" / "store", "options")
    words = [f"--storage={name}={value}" for name, value in server.storage.items()]
    wrong = environment(server, own_tmp) | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    done = subprocess.run(
        [*COMMAND, "info", url, *words], env=wrong, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f'"path": "{url}"' in done.stdout


NEARLY_FULL = 1 << 15
"""Bytes that a program has left in a pipe, when it waits or is about to wait for its reader."""


def unread_bytes(pipe: IO[bytes]) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminated"]
)
def test_a_verb_that_is_ended_leaves_nothing(
    server: S3Server, tmp_path: Path, own_tmp: Path, number: signal.Signals, code: int
) -> None:
    """SIGTERM is how a shell's ``timeout`` and a scheduler end a program."""
    root = small_store(20_000).write(tmp_path / "store")
    url = server.put(root, f"ended-{code}")
    with subprocess.Popen(
        [sys.executable, *COMMAND[1:], "cat", url],
        env=environment(server, own_tmp),
        stdout=subprocess.PIPE,  # nobody reads on: the pipe is full, and the verb waits
        stderr=subprocess.PIPE,
    ) as process:
        out = process.stdout
        assert out is not None
        assert out.read(10)
        assert [name for name in os.listdir(own_tmp) if name.startswith("rmqcore-")]
        eventually(lambda: unread_bytes(out) >= NEARLY_FULL)
        process.send_signal(number)
        out.close()
        assert process.wait(60) == code
    assert os.listdir(own_tmp) == []


# ---- what is refused --------------------------------------------------------------------------------


def test_keys_that_the_server_does_not_know(server: S3Server, golden: Path) -> None:
    url = server.put(golden / "basic" / "store", "refused")
    with rmqcore.read(url, storage_options=server.storage) as reader, server.refusing_keys():
        for ask in (
            lambda: rmqcore.read(url, storage_options=server.storage),
            lambda: [*reader.messages()],
            reader.queues,
        ):
            with pytest.raises(
                RemoteStorageError, match=r"refused.*(INVALID_ACCESS_KEY|ACCESS_DENIED)"
            ) as caught:
                ask()
            assert SECRET not in str(caught.value)


def test_a_server_or_bucket_that_is_not_there(server: S3Server) -> None:
    nobody = server.storage | {"endpoint_override": "127.0.0.1:1"}
    with pytest.raises(RemoteStorageError, match="NETWORK_CONNECTION"):
        rmqcore.read(f"s3://{BUCKET}/a", storage_options=nobody)
    with pytest.raises(RemoteStorageError, match="NO_SUCH_BUCKET"):
        rmqcore.read("s3://no-such-bucket/a", storage_options=server.storage)
    with pytest.raises(FileNotFoundError, match=f"s3://{BUCKET}/nowhere"):
        rmqcore.read(f"s3://{BUCKET}/nowhere", storage_options=server.storage)


def test_objects_that_change(server: S3Server, golden: Path) -> None:
    url = server.put(golden / "basic" / "store", "changing")
    with rmqcore.read(url, storage_options=server.storage) as reader:
        server.put_bytes("changing/commitlog/00000000000000000000", b"x" * 100)
        with pytest.raises(
            RemoteChangedError, match=r"0: the file has 100 bytes of .*, expected 131072 bytes of"
        ):
            list(reader.messages())
        server.delete("changing/commitlog/00000000000000131072")
        with pytest.raises(RemoteChangedError, match=r"131072: the file was deleted"):
            reader.message_at(131072)
    with pytest.raises(NotAStoreError, match=f"s3://{BUCKET}/changing/consumequeue has no"):
        rmqcore.read(f"{url}/consumequeue", storage_options=server.storage)
