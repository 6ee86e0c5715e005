"""Where the rules turn: records at the end of a file, and what a store refuses; the same as Java, byte for byte."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.files import check_same_files
from interop.workload import PLAIN, PROP_CRC, START_MS, Put, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore import Message

FILE_SIZE: int = PLAIN["mappedFileSizeCommitLog"]
LIMIT = 2048


@pytest.mark.parametrize("config", [PLAIN, PROP_CRC], ids=["plain", "prop_crc"])
@pytest.mark.parametrize("batch", [False, True], ids=["single", "batch"])
def test_records_that_just_fit_and_just_do_not(
    batch: bool, config: dict[str, Any], java_open: OpenJava, tmp_path: Path
) -> None:
    """A record needs its size and eight bytes for the BLANK; a batch is measured as it is added up."""
    clock, puts, got = Clock(), [], []
    times = itertools.count(START_MS)

    def fits(size: int) -> Put:
        bodies = [b"", bytes(size)] if batch else [bytes(size)]
        return Put(
            [Message("Edge", body, 0, "A", ["k"], born_timestamp_ms=1) for body in bodies],
            next(times),
        )

    with rmqcore.open(tmp_path / "ours", services=False, clock=clock, **ours(config)) as store:

        def put(one: Put) -> int:
            got.extend(put_ours(store, clock, [one]))
            puts.append(one)
            end: int = store.max_phy_offset
            return FILE_SIZE - end % FILE_SIZE

        put(fits(0))
        empty = got[0]["msg_size"]  # of records without a body
        for spare in range(-10, 20):
            room = put(fits(900))
            while room > 4000:
                room = put(fits(1500))
            room = put(fits(room - 8 - empty - spare))
            assert (room == 8 + spare) == (spare >= 0)
    with java_open(tmp_path / "java", config) as java:
        want = put_java(java, puts)
    assert got == want
    check_same_files(tmp_path / "ours", tmp_path / "java")


def refused() -> dict[str, list[Message]]:
    """Puts that a store takes or refuses, by what is special about them."""
    batch = [Message("T", b"1"), Message("T", b"2")]
    half = [Message("T", b"1", sys_flag=4), Message("T", b"2", sys_flag=4)]
    return {
        "empty body": [Message("T", b"")],
        "body at the limit": [Message("T", bytes(LIMIT))],
        "body over the limit": [Message("T", bytes(LIMIT + 1))],
        "topic of 127": [Message("t" * 127, b"x")],
        "topic of 128": [Message("t" * 128, b"x")],
        "topic of 255": [Message("t" * 255, b"x")],
        "properties at the limit": [Message("T", b"x", properties={"p": "v" * (32767 - 3)})],
        "properties over the limit": [Message("T", b"x", properties={"p": "v" * (32767 - 2)})],
        "inner number": [Message("T", b"x", properties={"INNER_NUM": "2"})],
        "inner batch on a plain topic": [Message("T", b"x", sys_flag=0x80)],
        "batch": batch,
        "batch of half messages": half,
        "key with a space": [Message("T", b"x", properties={"KEYS": " a  b "})],
        "huge queue id": [Message("T", b"x", 2**31 - 1)],
    }


@pytest.mark.parametrize("what", refused())
def test_what_is_refused(what: str, java_open: OpenJava, tmp_path: Path) -> None:
    config = {**PLAIN, "mappedFileSizeCommitLog": 128 * 1024, "maxMessageSize": LIMIT}
    put = Put([Message("T", b"before")], START_MS), Put(refused()[what], START_MS + 1)
    clock = Clock()
    for message in (message for one in put for message in one.messages):
        message.born_timestamp_ms = START_MS
    with java_open(tmp_path / "java", config) as java:
        want = put_java(java, put)
    with rmqcore.open(tmp_path / "ours", services=False, clock=clock, **ours(config)) as store:
        got = put_ours(store, clock, put)
    assert got[1]["status"] == want[1]["status"]
    if want[1]["status"] == "PUT_OK":
        assert got == want
    check_same_files(tmp_path / "ours", tmp_path / "java")
