"""Reports with a list of any length: items are printed as they are made, and the text is that of the whole."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from support.stores.built_store import BuiltStore

from rmqcore.cli.common import output
from rmqcore.cli.verbs import info as info_verb
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.info import read_info
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.queues.queues import each_queue_info, list_queues

HEAD = {"path": "/a\nb", "nested": {"a": [1, 2], "b": {}}, "none": None}
ITEMS: list[dict[str, Any]] = [
    {"topic": "T\n\N{SNOWMAN}", "queue_id": 1, "none": None},
    {"topic": 'a"b', "list": [], "more": {"x": 1}},
    {},
]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    out = io.BytesIO()

    @contextmanager
    def opened(path: None) -> Iterator[BinaryIO]:
        yield out

    monkeypatch.setattr(output, "open_output", opened)
    return out


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (0, 3), (3, 2)])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_the_text_is_that_of_the_whole(
    printed: io.BytesIO,
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    counts: tuple[int, int],
    at_once: int,
) -> None:
    monkeypatch.setattr(output, "stdout_is_terminal", lambda: terminal)
    monkeypatch.setattr(output, "PRINTED_AT_ONCE", at_once)
    lists = {"queues": ITEMS[: counts[0]], "files": ITEMS[: counts[1]]}
    output.print_json({**HEAD, **lists})
    whole = printed.getvalue()
    printed.seek(0)
    printed.truncate()
    output.print_json_lists(HEAD, {name: iter(items) for name, items in lists.items()})
    assert printed.getvalue() == whole


def test_a_name_that_is_not_utf_8(printed: io.BytesIO) -> None:
    output.print_json_lists(
        {"path": "x"}, {"queues": iter([{"topic": "\udcff"}, {"topic": "\xe4"}])}
    )
    assert json.loads(printed.getvalue())["queues"] == [{"topic": "\udcff"}, {"topic": "\xe4"}]


def test_an_error_soon_leaves_nothing(printed: io.BytesIO) -> None:
    def items() -> Iterator[dict[str, Any]]:
        yield {"topic": "T"}
        raise OSError("a link")

    with pytest.raises(OSError, match="a link"):
        output.print_json_lists({"path": "x"}, {"queues": items()})
    assert printed.getvalue() == b""


def test_a_table_shows_some_and_counts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = BuiltStore(tmp_path / "store", log_file_size=1 << 15)
    for number in range(70):
        store.put(f"t{number % 5}", number)
    root = store.write()
    monkeypatch.setattr(info_verb, "MAX_ROWS", 11)
    info_verb.info(str(root), asked_format=output.ReportFormat.table)
    assert "... and 59 more queues" in capsys.readouterr().out


def test_what_is_counted_without_a_list(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store", log_file_size=1 << 15)
    for number in range(30):
        store.put(f"t{number % 5}", number)
    root = store.write()
    (root / "consumequeue" / "empty").mkdir()
    (root / "consumequeue" / "t1" / "odd").mkdir()
    (root / "consumequeue" / "file").write_bytes(b"x" * 5000)
    (root / "consumequeue" / "t2" / "link").symlink_to(root / "commitlog")
    paths = StorePaths(root)
    found = read_info(paths, list_log_files(paths))
    assert (found.topic_count, found.queue_count) == (5, 30)
    files = [path for path in (root / "consumequeue").rglob("*") if path.is_file()]
    assert found.consumequeue_bytes == sum(path.stat().st_blocks * 512 for path in files)
    (root / "consumequeue" / "t2" / "link").unlink()
    infos = list(each_queue_info(paths, found.min_phy_offset, found.max_phy_offset))
    assert infos == list_queues(paths, found.min_phy_offset, found.max_phy_offset)
    assert len(infos) == 30
