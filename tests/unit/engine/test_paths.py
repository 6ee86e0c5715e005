"""Names of store files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcore.engine.paths import MAX_OFFSET, StorePaths, file_name, parse_file_name


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (0, "00000000000000000000"),
        (1 << 30, "00000000001073741824"),
        (6_000_000, "00000000000006000000"),
        (MAX_OFFSET, "09223372036854775807"),
    ],
)
def test_names_have_20_digits(offset: int, name: str) -> None:
    assert file_name(offset) == name
    assert parse_file_name(name) == offset


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_an_offset_that_is_no_java_long_has_no_name(offset: int) -> None:
    with pytest.raises(ValueError, match="file offset"):
        file_name(offset)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0",
        "1073741824",
        "0000000000107374182x",
        "-0000000000000000001",
        "000000000000000000001",
        "99999999999999999999",
        "٠" * 20,
        "²" + "0" * 19,
        "00000000000000000000.bak",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert parse_file_name(name) is None


def test_places_under_the_root() -> None:
    paths = StorePaths("/data/store", commitlog="/fast/commitlog")
    assert paths.commitlog == Path("/fast/commitlog")
    assert StorePaths("/data/store").commitlog == Path("/data/store/commitlog")
    assert paths.queue("%LMQ%q0", 0) == Path("/data/store/consumequeue/%LMQ%q0/0")


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../../etc", "a\0b"])
def test_a_topic_cannot_leave_the_store(topic: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        StorePaths("/data/store").queue(topic, 0)
