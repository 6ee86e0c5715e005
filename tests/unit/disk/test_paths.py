"""Names of store files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqcore.disk.paths import (
    MAX_OFFSET,
    MAX_QUEUE_ID,
    StorePaths,
    file_name,
    is_index_file_name,
    log_directories,
    parse_file_name,
    parse_queue_id,
)


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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/a", ["/a"]),
        ("/a,/b", ["/a", "/b"]),
        ("/a,/b,,", ["/a", "/b"]),
        ("/a,", ["/a"]),
        (" /a,/b ", ["/a", "/b"]),
        ("a b,c", ["a b", "c"]),
    ],
)
def test_directories_of_a_setting(text: str, parts: list[str]) -> None:
    assert log_directories(text, "f") == parts


@pytest.mark.parametrize("text", ["", " ", ",", ",/a", "/a,,/b", "/a, /b", "/a ,/b", " /a", "/a "])
def test_directories_that_nobody_means(text: str) -> None:
    with pytest.raises(ValueError, match=r"^f"):
        log_directories(text, "f")


def test_several_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = StorePaths.configured("store", "b,/a,b/,./b", "/a,/c")
    assert paths.root == tmp_path / "store"
    assert paths.commitlogs == (tmp_path / "b", Path("/a"), Path("/c"))
    assert paths.commitlog == tmp_path / "b"
    assert paths.new_file_folders == (tmp_path / "b",)
    assert StorePaths.configured("/s", "/d2,/d1").new_file_folders == (Path("/d1"), Path("/d2"))
    plain = StorePaths.configured("/s,t", None, " ")
    assert plain.commitlogs == plain.new_file_folders == (Path("/s,t/commitlog"),)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_paths_that_name_nothing(path: str) -> None:
    with pytest.raises(ValueError, match=r"^path "):
        StorePaths(path)
    with pytest.raises(ValueError, match="store_path_commit_log"):
        StorePaths("/a", commitlog=path)


@pytest.mark.parametrize("path", [b"/a", 7, None])
def test_paths_of_another_type(path: Any) -> None:
    with pytest.raises(TypeError):
        StorePaths(path)


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../../etc", "a\0b"])
def test_a_topic_cannot_leave_the_store(topic: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        StorePaths("/data/store").queue(topic, 0)


@pytest.mark.parametrize(
    ("name", "queue_id"),
    [
        ("0", 0),
        ("42", 42),
        (str(MAX_QUEUE_ID), MAX_QUEUE_ID),
        (str(MAX_QUEUE_ID + 1), None),
        ("007", None),
        ("-1", None),
        ("\u0663", None),
        ("1 ", None),
        ("", None),
    ],
)
def test_a_queue_is_a_directory_that_java_finds_again(name: str, queue_id: int | None) -> None:
    assert parse_queue_id(name) == queue_id


@pytest.mark.parametrize(
    ("name", "is_index"),
    [
        ("20240102030405006", True),
        ("7", True),
        (str(MAX_OFFSET), True),
        (str(MAX_OFFSET + 1), False),
        ("0" * 20, False),
        ("20240102030405006.tmp", False),
        ("\u0663", False),
        ("", False),
    ],
)
def test_an_index_file_is_a_name_that_is_a_java_long(name: str, *, is_index: bool) -> None:
    assert is_index_file_name(name) is is_index
