"""Bodies that are large, or grow when they are unpacked: text shows their first 4 MiB.

An 8 KB body of ZSTD took ``cat --decompress`` 3.5 GB, four of them 12.6 GB: it was unpacked whole, became text, JSON and bytes,
and up to 512 such lines waited for each other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run
from support.cli.peak_memory import peak_kib

import rmqcore as package
from rmqcore import Message, codec
from rmqcore.codec.compression import PIECE, plain_pieces
from rmqcore.errors import CompressionError, StoreFormatError
from rmqcore.offline.export.message_rows import MAX_BODY, MAX_STORED_BODY
from rmqcore.offline.log.long_record import MOST_WHOLE
from rmqcore.offline.reader import StoreReader

MIB = 1024 * 1024
COUNT, PLAIN_SIZE = 4, 64 * MIB
MOST_KIB = 400 * 1024
SETTINGS: dict[str, Any] = {
    "services": False,
    "max_message_size": 32 * MIB,
    "mapped_file_size_commit_log": 64 * MIB,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}


def packed(kind: int) -> bytes:
    plain = bytes(PLAIN_SIZE)
    if kind == 3:
        return zlib.compress(plain)
    module = "lz4.frame" if kind == 1 else "zstandard"
    library = pytest.importorskip(module, reason="the extra rmqcore[compress] is not installed")
    return bytes(library.compress(plain))


def store_of(root: Path, *bodies: tuple[bytes, int]) -> Path:
    with package.open(root, **SETTINGS) as store:
        for body, sys_flag in bodies:
            store.put(Message("T", body, sys_flag=sys_flag)).raise_for_status()
    return root


def test_the_measure_is_of_the_run_alone() -> None:
    """A worker that had more memory than a verb may have made a sound verb fail."""
    large = bytearray(os.urandom(1 << 20) * 500)
    code, kib = peak_kib("--version")
    assert (code, len(large)) == (0, 500 << 20)
    assert 5000 < kib < MOST_KIB


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (1, ["--format", "jsonl"]),
        (2, ["--format", "jsonl"]),
        (2, ["--format", "csv"]),
        (2, ["--json"]),
        (3, ["--format", "jsonl"]),
    ],
)
def test_bodies_that_grow(tmp_path: Path, kind: int, options: list[str]) -> None:
    store = store_of(tmp_path / "store", *[(packed(kind), kind << 8 | 1)] * COUNT)
    code, kib = peak_kib("cat", store, "--decompress", *options)
    assert code == 0
    assert kib < MOST_KIB


@pytest.mark.parametrize("verb", ["cat", "export"])
@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
def test_large_stored_bodies(tmp_path: Path, verb: str, file_format: str) -> None:
    store = store_of(tmp_path / "store", *[(bytes(20 * MIB), 0)] * COUNT)
    words = ["-o", str(tmp_path / "out")] if verb == "export" else []
    code, kib = peak_kib(verb, store, "--format", file_format, *words)
    assert code == 0
    assert kib < MOST_KIB


def test_what_is_shortened_is_said(rmqcore: Run, tmp_path: Path) -> None:
    """Nothing else is; a hash is one of the whole body."""
    bodies = [b"x" * (MAX_BODY + 1), b"y" * MAX_BODY, zlib.compress(b"z" * (MAX_BODY + 1))]
    flags = [0, 0, 0x301]
    store = store_of(tmp_path / "store", *zip(bodies, flags, strict=True))
    done = rmqcore("cat", store, "--decompress")
    assert done.code == 0
    assert [row["body"] for row in done.lines] == [letter * MAX_BODY for letter in "xyz"]
    places = [row["phy_offset"] for row in done.lines]
    assert [line.split(":")[0] for line in done.err.splitlines()] == [
        f"body of the message at {place} shortened to {MAX_BODY} bytes" for place in places[::2]
    ]
    done = rmqcore("cat", store, "--decompress", "--max-body", str(MAX_BODY + 1))
    assert (done.err, [len(row["body"]) for row in done.lines]) == (
        "",
        [MAX_BODY + 1, MAX_BODY, MAX_BODY + 1],
    )
    done = rmqcore("export", store, "-o", tmp_path / "out", "--format", "jsonl", "--json")
    assert done.object["shortened_bodies"] == 1
    assert done.err == (
        f"1 body shortened to {MAX_BODY} bytes (raise it with --max-body), of the messages at 0\n"
    )
    done = rmqcore("cat", store, "--body", "sha256")
    assert done.err == ""
    hashes = [hashlib.sha256(body).hexdigest() for body in bodies]
    assert [row["body"] for row in done.lines] == hashes
    done = rmqcore("cat", store, "--body", "base64", "--limit", "1")
    assert base64.b64decode(done.lines[0]["body"]) == bodies[0][:MAX_BODY]


@pytest.mark.parametrize("kind", [1, 2, 3], ids=["LZ4", "ZSTD", "ZLIB"])
def test_pieces_are_small_and_whole(kind: int) -> None:
    body = packed(kind)
    pieces = list(plain_pieces(body, kind << 8 | 1))
    assert max(map(len, pieces)) <= PIECE
    assert b"".join(pieces) == bytes(PLAIN_SIZE)
    with pytest.raises(CompressionError, match="larger than 1000000 bytes"):
        list(plain_pieces(body, kind << 8 | 1, 1_000_000))
    with pytest.raises(CompressionError, match="cut off"):
        list(plain_pieces(body[:-1], kind << 8 | 1))


@pytest.mark.parametrize("verb", ["cat", "export"])
def test_columns_hold_bodies_up_to_a_limit(rmqcore: Run, tmp_path: Path, verb: str) -> None:
    """Parquet of three bodies of 256 MiB took 3 GB: a body is cut where the limit is, and that is said."""
    dataset = pytest.importorskip("pyarrow.dataset")
    sizes = [MAX_STORED_BODY + 1, MAX_STORED_BODY, 5000, 9 * MIB]
    store = store_of(
        tmp_path / "store", *((bytes([65 + n]) * size, 0) for n, size in enumerate(sizes))
    )
    places = [row["phy_offset"] for row in rmqcore("cat", store, "--body", "none").lines]
    for most, options in ((MAX_STORED_BODY, []), (4000, ["--max-body", "4000"])):
        out = tmp_path / str(most) / "out.parquet"
        out.parent.mkdir()
        done = rmqcore(verb, store, "--format", "parquet", "-o", out, *options)
        assert done.code == 0
        rows = dataset.dataset(out, format="parquet", partitioning="hive").to_table().to_pydict()
        assert rows["phy_offset"] == places
        assert rows["body"] == [bytes([65 + n]) * min(size, most) for n, size in enumerate(sizes)]
        longer = [place for place, size in zip(places, sizes, strict=True) if size > most]
        assert done.err.count(f"shortened to {most} bytes") == (
            1 if verb == "export" else len(longer)
        )
        for place in longer:
            assert re.search(rf"\b{place}\b", done.err)
    out = tmp_path / "whole.parquet"
    done = rmqcore("cat", store, "--format", "parquet", "-o", out, "--max-body", str(1 << 40))
    assert [len(body) for body in dataset.dataset(out).to_table()["body"].to_pylist()] == sizes
    assert done.err == ""


def test_bodies_of_long_records_are_read_in_pieces(rmqcore: Run, tmp_path: Path) -> None:
    """Hashes and plain bodies are those of all the stored bytes, of which a mebibyte is in memory: it was all of them, twice."""
    zstandard = pytest.importorskip(
        "zstandard", reason="the extra rmqcore[compress] is not installed"
    )
    plain = os.urandom(MOST_WHOLE + 99_999)
    bodies = [(plain, 0), (zlib.compress(plain, 0), 0x301), (zstandard.compress(plain), 0x201)]
    bodies += [(body[:-1], flag) for body, flag in bodies[1:]]
    log = tmp_path / "store" / "commitlog" / f"{0:020}"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        for number, (body, flag) in enumerate(bodies):
            message = Message("T", body, sys_flag=flag)
            file.write(
                codec.encode(
                    message, phy_offset=file.tell(), queue_offset=number, store_timestamp_ms=1
                )
            )
    store = tmp_path / "store"
    stored = [hashlib.sha256(body).hexdigest() for body, _ in bodies]
    done = rmqcore("cat", store, "--body", "sha256")
    assert [row["body"] for row in done.lines] == stored
    done = rmqcore("cat", store, "--body", "sha256", "--decompress")
    assert [row["body"] for row in done.lines] == [hashlib.sha256(plain).hexdigest()] * 3 + [
        None
    ] * 2
    assert (done.code, done.err.count("cut off")) == (2, 2)
    done = rmqcore("cat", store, "--body", "base64", "--decompress", "--max-body", "100")
    assert [base64.b64decode(row["body"]) for row in done.lines] == [plain[:100]] * 5
    rmqcore("export", store, "-o", tmp_path / "out", "--format", "jsonl", "--body", "sha256")
    (part,) = tmp_path.glob("out/*/*/*.jsonl")
    assert [json.loads(line)["body"] for line in part.read_text().splitlines()] == stored
    code, kib = peak_kib("cat", store, "--body", "sha256", "--decompress")
    assert code == 2
    assert kib < 128 * 1024
    (view, *_) = StoreReader(store).messages(most_body=0)
    with StoreReader(store).stored_body(view) as body:
        os.truncate(log, 2 * MIB)
        assert body[: MIB // 2] == plain[: MIB // 2]
        with pytest.raises(StoreFormatError, match=r"no byte 2097240, expected .* cut while"):
            body[2 * MIB :]
