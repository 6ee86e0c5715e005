"""The prover: small reads of a file, errors of the reader, and calls that do not fit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.oracle import records as oracle

from rmqcore._native.scan import places
from rmqcore._native.scan.proof import PAGE, Prover
from rmqcore._native.threads.descriptor import Descriptor

BASE = 4096
DATA = b"".join(
    oracle.encode_record(oracle.Record(b"T", bytes(100_000 - 91 - 1), b"", phy_offset=BASE + pos))
    for pos in range(0, 500_000, 100_000)
)
FILE = (b"", 0, BASE, BASE + len(DATA))


def at(pos: int) -> tuple[bytes, int, int, int, int]:
    buf, length, start, end = FILE
    return buf, length, pos, start, end


def reader(view: memoryview, pos: int) -> int:
    got = DATA[pos : pos + len(view)]
    view[: len(got)] = got
    return len(got)


@pytest.fixture
def file(tmp_path: Path) -> Descriptor:
    path = tmp_path / "log"
    path.write_bytes(DATA)
    return Descriptor(path, os.O_RDONLY)


def with_states(prover: Prover) -> Prover:
    prover.begin_states(len(DATA))
    prover.add(DATA, len(DATA), 0)
    return prover


def test_a_place_costs_some_pages() -> None:
    prover = with_states(Prover(reader, BASE))
    for pos in range(0, 500_000, 100_000):
        before = prover.pages_read
        assert prover.step(*at(pos)).code == prover.shape(*at(pos)).code == 100_000
        assert prover.pages_read - before <= 4
        assert prover.guesses(*at(pos)) == [pos + 100_000]
    assert prover.step(*at(500)).code == places.ZERO


def test_pages_are_kept_until_they_are_forgotten() -> None:
    prover = Prover(reader, BASE)
    prover.shape(*at(0))
    before = prover.pages_read
    prover.shape(*at(0))
    assert prover.pages_read == before
    prover.forget()
    prover.shape(*at(0))
    assert prover.pages_read == 2 * before


def test_an_open_file_is_read_without_python_but_for_its_last_page(file: Descriptor) -> None:
    """A page by way of Python cost 3 us: 19 MiB/s of a log whose headers each reach to a place of their own."""
    asked: list[int] = []

    def asking(view: memoryview, pos: int) -> int:
        asked.append(pos)
        return reader(view, pos)

    prover = with_states(Prover(asking, BASE, file, len(DATA)))
    for pos in range(0, 500_000, 100_000):
        assert prover.step(*at(pos)).code == prover.shape(*at(pos)).code == 100_000
        assert prover.guesses(*at(pos)) == [pos + 100_000]
    assert asked == [len(DATA) // PAGE * PAGE]
    assert prover.pages_read == 6


def test_a_file_gives_nothing_behind_its_end_and_nothing_once_it_is_closed(
    file: Descriptor,
) -> None:
    """A number of a closed file may be that of another one by now."""
    asked: list[int] = []

    def asking(view: memoryview, pos: int) -> int:
        asked.append(pos // PAGE)
        return reader(view, pos)

    prover = Prover(asking, BASE, file, 2 * PAGE)
    prover.shape(*at(0))  # its topic and properties are in pages 0 and 24
    assert asked == [100_000 // PAGE]
    prover.forget()
    file.close()
    prover.shape(*at(0))
    assert asked == [100_000 // PAGE, 0, 100_000 // PAGE]


def test_what_a_cut_file_does_not_give_is_asked_of_the_reader(
    file: Descriptor, tmp_path: Path
) -> None:
    os.truncate(tmp_path / "log", PAGE + 1)
    asked: list[int] = []

    def asking(view: memoryview, pos: int) -> int:
        asked.append(pos // PAGE)
        return 0

    prover = Prover(asking, BASE, file, len(DATA))
    assert prover.shape(*at(100_000)).code == places.ZERO
    assert asked == [100_000 // PAGE]


@pytest.mark.parametrize("error", [OSError(5, "bad"), KeyboardInterrupt()])
def test_errors_of_the_reader_come_out(error: BaseException) -> None:
    def failing(view: memoryview, pos: int) -> int:
        if pos:
            raise error
        return reader(view, pos)

    prover = Prover(failing, BASE)
    with pytest.raises(type(error)):
        prover.shape(*at(0))
    assert Prover(reader, BASE).shape(*at(0)).code == 100_000


@pytest.mark.parametrize("answer", [-1, PAGE + 1])
def test_a_reader_that_lies(answer: int) -> None:
    with pytest.raises(ValueError, match="read_into answered"):
        Prover(lambda view, pos: answer, BASE).shape(*at(0))


def test_the_reader_may_not_ask_the_prover() -> None:
    """The window and the states that the first call looks at would be gone when it goes on."""
    asked: list[str] = []

    def asking(view: memoryview, pos: int) -> int:
        for call in (
            lambda: prover.shape(*at(0)),
            lambda: prover.find(b"x" * 100, 100, 0, BASE, BASE + len(DATA)),
            lambda: prover.add(b"x", 1, len(DATA)),
        ):
            with pytest.raises(ValueError, match="may not ask"):
                call()
            asked.append("refused")
        return reader(view, pos)

    prover = with_states(Prover(asking, BASE))
    assert prover.step(*at(0)).code == 100_000
    assert len(asked) == 3 * prover.pages_read > 0


def test_calls_that_do_not_fit() -> None:
    prover = Prover(reader, BASE)
    for place in (
        at(-1),
        at(len(DATA) + 1),
        (b"", 0, 0, BASE - 1, BASE),
        (b"x", 2, 0, BASE, 2 * BASE),
    ):
        with pytest.raises(ValueError):
            prover.shape(*place)
    with pytest.raises(ValueError, match="begin_states"):
        prover.step(*at(0))
    with pytest.raises(ValueError, match="begin_states"):
        prover.add(b"x", 1, 0)
    with_states(prover)
    with pytest.raises(ValueError, match="before"):
        prover.begin_states(1)
    for data, length, pos in ((b"x", 2, 1 << 20), (b"x", 1, 100), (b"x", 1, len(DATA))):
        with pytest.raises(ValueError):
            prover.add(data, length, pos)
    with pytest.raises(ValueError, match="not in a window"):
        prover.find(b"x", 1, 2, BASE, BASE + len(DATA))
