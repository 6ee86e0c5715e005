"""Tables at 60, 80, 120 and 200 columns: they fit, and lose nothing.

At 80 columns the names of index files were gone, 1999 was ``19…``, ``key-17`` was ``key``, and bodies ended without a trace.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.cli.cli_runs import Run
from support.cli.one_process import each_in_terminal

import rmqcore as package
from rmqcore import Message, MessageStoreConfig
from rmqcore.cli.common.output import counted, human_bytes
from rmqcore.cli.common.shown import (
    GAP,
    ReportConsole,
    column_widths,
    folded,
    least_width,
    table_lines,
)
from rmqcore.cli.reports.report_table import ReportTable
from rmqcore.cli.spark import find as spark_find
from rmqcore.cli.spark import rows as spark_rows
from rmqcore.codec.message import MessageView

WIDTHS = (60, 80, 120, 200)
TOPIC = "%RETRY%order-payment-notification-group"
BODY = '{"order": "ORDER-2026-%05d", "amount": 12.50, "note": "please ring twice, the bell is not loud"}'


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with names as long as people have, large offsets and several index files."""
    root = tmp_path_factory.mktemp("folding") / "orders"
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 20,
        "mapped_file_size_consume_queue": 20 * 1000,
        "max_hash_slot_num": 1000,
        "max_index_num": 900,
    }
    with package.open(root, MessageStoreConfig(**sizes), services=False) as store:
        for number in range(2000):
            topic, body = ("Orders", TOPIC)[number % 2], BODY % number
            keys = [f"ORDER-2026-{number:05}", f"customer-{number % 97}"]
            tags = "PaymentCaptured" if number % 3 else "PaymentRefused"
            store.put(Message(topic, body.encode(), keys=keys, tags=tags, queue_id=number % 4))
        store.wait_dispatched()
    return root


def shown(
    *words: str | Path, widths: Sequence[int] = WIDTHS, streams: str = "stdout stderr"
) -> Iterator[tuple[int, list[str]]]:
    """Each width with the lines on a terminal of it, without colours; ``{width}`` in a word stands for the width."""
    runs = [
        (
            [str(word).replace("{width}", str(width)) for word in words],
            {"COLUMNS": str(width), "NO_COLOR": "1"},
        )
        for width in widths
    ]
    for width, (code, text) in zip(widths, each_in_terminal(*runs, streams=streams), strict=True):
        assert code in (0, 2), text
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
        # What is to be typed stands as it is.
        fitting = [line for line in lines if not line.startswith("  $ rmqcore ")]
        assert max(map(cell_len, fitting)) <= width, max(fitting, key=cell_len)
        yield width, lines


def squeezed(lines: list[str]) -> str:
    """Without what folding adds."""
    return re.sub(r"\s+", "", "".join(lines))


def test_messages(orders: Path) -> None:
    words = ("--topic", TOPIC, "--key", "customer-1", "--limit", "3")
    found = list(package.read(orders).query(TOPIC, "customer-1", 3))
    for width, lines in shown("query", orders, *words):
        are_whole(found, width, lines)


def are_whole(found: list[MessageView], width: int, lines: list[str]) -> None:
    text = "\n".join(lines)
    for view in found:
        for whole in (view.queue_offset, view.phy_offset, view.msg_size, *view.keys, view.tags):
            assert re.search(rf"\b{whole}\b", text), whole
        assert text.count(f"ORDER-2026-{int(view.keys[0][-5:]):05}") >= 1
    if width < 80:
        assert [line for line in lines if line.startswith("phy_offset ")]
        assert squeezed(lines).count("thebellisnotloud") == 3
    else:
        assert {"queue", "offset", "phy_offset", "size"} <= set(lines[0].split())
        bodies = [line[line.index("{") :] for line in lines if "{" in line]
        assert len(bodies) == 3
        assert all(body.endswith(("}", "…")) for body in bodies)


def test_index_files_have_names_and_numbers(orders: Path) -> None:
    for width, lines in shown("info", orders):
        text = "\n".join(lines)
        for file in package.read(orders).index_files():
            numbers = (file.name, file.entry_count, file.begin_phy_offset, file.end_phy_offset)
            assert all(re.search(rf"\b{number}\b", text) for number in numbers), (width, file)
        assert "…" not in text, width
        assert "1970" not in text, width


@pytest.mark.parametrize("by", [(), ("--by", "hour", "--by", "queue")], ids=["topic", "all"])
def test_statistics(orders: Path, by: tuple[str, ...]) -> None:
    for width, lines in shown("stats", orders, *by):
        text = "\n".join(lines)
        assert "…" not in text, width
        assert TOPIC[:12] in text, width
        assert re.search(rf"\b{1000 if not by else 500}\b", text.replace(",", "")), width
        assert ("sizes,tagsandkeys" in squeezed(lines)) == (width < 120), width


@pytest.mark.parametrize(
    "words",
    [["fsck"], ["doctor"], ["retention"], ["top", "--once", "--interval", "0.1"]],
    ids=lambda words: words[0],
)
def test_reports_fit(orders: Path, words: list[str]) -> None:
    assert len(list(shown(words[0], orders, *words[1:]))) == len(WIDTHS)


def test_a_backup(orders: Path, tmp_path: Path) -> None:
    """It said "1 files", in a table of its own."""
    folder = tmp_path / "a-long-name-for-a-folder-of-backups"
    words = ("backup", orders, folder / "copy-{width}")
    for width, lines in shown(*words):
        text = squeezed(lines)
        assert f"backup{folder}/copy-{width}" in text
        assert "deleted0files" in text, width
    for width, lines in shown(*words):
        assert re.search(r"^copied +(1 file,|-)", "\n".join(lines), re.MULTILINE), width
        assert not re.search(r"\b1 (files|records)\b", "\n".join(lines)), width


def test_a_salvage(golden: Path, tmp_path: Path) -> None:
    """It printed lines that the terminal broke in the middle of words."""
    source, folder = golden / "crash_flipped" / "input", tmp_path / "a-long-name-of-a-folder"
    for width, lines in shown("salvage", source, folder / "salvaged-{width}", streams="stdout"):
        plain = squeezed(lines)
        assert f"newstore{folder}/salvaged-{width}" in plain
        assert "442bytesofthelog,1messageofqueueentries" in plain, width
        assert "TopicCrashB191" in plain, width


@pytest.mark.parametrize(
    "words", [["recover"], ["recover", "--apply", "--yes", "--drop", "21"]], ids=" ".join
)
def test_a_recovery(golden: Path, tmp_path: Path, words: list[str]) -> None:
    for width in WIDTHS:
        shutil.copytree(golden / "crash_flipped" / "input", tmp_path / f"store-{width}")
    for width, lines in shown(words[0], tmp_path / "store-{width}", *words[1:]):
        plain = squeezed(lines)
        assert "BODYCRCis" in plain, width
        assert f"{tmp_path}/store-{width}/cut/" in plain or "21messagesof6queues" in plain, width


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_a_spark_job(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column without room was cut with an ellipsis, numbers too."""
    rows: list[dict[str, Any]] = [
        {
            "broker": f"/data/warehouse/broker-{number}/store",
            "store_timestamp": "2026-11-24T00:37:13.148+00:00",
            "topic": TOPIC,
            "queue_id": number,
            "queue_offset": 10**12 + number,
            "tags": None,
            "keys": f"ORDER-2026-{number:05} customer-{number}",
            "body": BODY % number * 3 + "\x1b[2J",
        }
        for number in range(3)
    ]
    console = ReportConsole(width=width)
    monkeypatch.setattr(spark_rows, "terminal_console", lambda: console)
    with console.capture() as printed:
        spark_rows.show_rows("messages", rows, spark_find.SHOWN, as_json=False)
    lines = printed.get().splitlines()
    assert max(map(cell_len, lines)) <= width
    plain = "\n".join(lines)
    for row in rows:
        assert re.search(rf"\b{row['queue_offset']}\b", plain)
    assert "\x1b" not in plain
    assert plain.count("…") == 3  # ends of bodies
    in_columns = [line for line in lines if line.startswith("broker ")]
    assert len(in_columns) == 3 or "queue_offset" in lines[0]
    if len(in_columns) == 3:
        assert squeezed(lines).count(TOPIC) == 3


def test_no_rows_of_a_spark_job(capsys: pytest.CaptureFixture[str]) -> None:
    spark_rows.show_rows("messages", [], spark_find.SHOWN, as_json=False)
    assert capsys.readouterr().out == "no messages\n"


@pytest.mark.parametrize(
    ("count", "noun", "told"),
    [
        (1, "file", "1 file"),
        (0, "file", "0 files"),
        (2000, "file", "2,000 files"),
        (1, "entry", "1 entry"),
        (2, "index entry", "2 index entries"),
        (2, "body", "2 bodies"),
        (2, "day", "2 days"),
        (1, "byte", "1 byte"),
    ],
)
def test_one_is_no_plural(count: int, noun: str, told: str) -> None:
    assert counted(count, noun) == told
    assert human_bytes(1) == "1 byte"


def test_two_forecasts(golden: Path) -> None:
    """At 60 columns "fileReservedTime=24" was "fileReserved", and sizes had no end."""
    changes = ("--what-if", "fileReservedTime=24", "--what-if", "diskMaxUsedSpaceRatio=60")
    for width, lines in shown("retention", golden / "basic" / "store", *changes):
        assert "whatiffileReservedTime=24,diskMaxUsedSpaceRatio=60" in squeezed(lines), width
        assert "\n".join(lines).count(" of 7, ") == 2, width
        for name in ("diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio"):
            assert re.search(rf"\b{name}\b", "\n".join(lines)), width


def test_differences(golden: Path) -> None:
    for width, lines in shown("diff", golden / "basic" / "store", golden / "batch" / "store"):
        assert "…" not in "".join(lines), width
        assert "onlyin" in squeezed(lines), width


def test_wide_folds_nothing_and_is_a_table_in_a_pipe(rmqcore: Run, orders: Path) -> None:
    done = rmqcore(
        "get", orders, "--topic", TOPIC, "--queue", "1", "--offset", "0", "--wide", "--max", "9"
    )
    header, *rows = done.out.decode().splitlines()
    assert header.split()[0] == "store_time"
    assert len(rows) == 9
    assert all(row.endswith('not loud"}') for row in rows)
    for verb in ("info", "stats", "retention", "fsck"):
        text = rmqcore(verb, orders, "--wide").out.decode()
        assert text.startswith("store "), verb
    assert rmqcore("info", orders, "--wide").out.decode().count(TOPIC) == 2
    for more in (["--json"], ["--format", "jsonl"]):
        done = rmqcore("info", orders, "--wide", *more)
        assert (done.code, "--wide" in done.err) == (64, True)


def test_columns(rmqcore: Run, orders: Path) -> None:
    words = ("get", orders, "--topic", TOPIC, "--queue", "1", "--offset", "0", "--max", "2")
    rows = rmqcore(*words, "--columns", "keys,queue_offset,born_time").out.decode().splitlines()
    assert rows[0].split() == ["keys", "queue_offset", "born_time"]
    assert rows[1].split()[:3] == ["ORDER-2026-00001", "customer-1", "0"]
    done = rmqcore(*words, "--columns", "keys,frob")
    assert (done.code, "frob" in done.err, "store_time" in done.err) == (64, True, True)
    assert rmqcore(*words, "--columns", "keys", "--format", "csv").code == 64


# ---- the rules of folding ---------------------------------------------------------------------------

CELLS = st.text(st.sampled_from("ab9. 世é-"), max_size=40).map(lambda text: " ".join(text.split()))


@given(CELLS, st.integers(4, 30), st.booleans())
def test_folded_loses_nothing(text: str, width: int, inside: bool) -> None:
    lines = folded(text, width, inside=inside)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    if inside:
        assert all(cell_len(line) <= width for line in lines)


def test_a_number_is_never_broken() -> None:
    assert folded("2026-11-25 07:54:43.377", 12) == ["2026-11-25", "07:54:43.377"]
    assert folded("1099511627776..1099511699999", 15) == ["1099511627776..", "1099511699999"]
    assert folded("315.6 KiB", 4) == ["315.6 KiB"]
    assert folded("1,234,567", 4) == ["1,234,567"]


@given(st.lists(st.tuples(CELLS, st.booleans()), min_size=1, max_size=6), st.integers(20, 90))
def test_columns_share_a_line(columns: list[tuple[str, bool]], room: int) -> None:
    cells, texts = [cell for cell, _ in columns], [text for _, text in columns]
    natural = [cell_len(cell) for cell in cells]
    least = [least_width([cell], inside=text) for cell, text in columns]
    widths = column_widths(natural, least, texts, room)
    if widths is None:
        assert sum(least) + GAP * (len(cells) - 1) > room
        return
    assert all(
        low <= width <= high for low, width, high in zip(least, widths, natural, strict=True)
    )
    assert all(cell_len(line) <= room for line in table_lines(cells, widths, texts))


def test_a_report_without_room_becomes_cards() -> None:
    table = ReportTable("Files", "name", "from", "to", left=("name",))
    table.add_row("one", "1234567890123", "1234567890124")
    table.add_row("[red]two", "1", "2")
    console = ReportConsole(width=30)
    with console.capture() as printed:
        console.print(table)
    assert [line.split() for line in printed.get().splitlines()] == [
        [],
        ["Files"],
        ["name", "one"],
        ["from", "1234567890123"],
        ["to", "1234567890124"],
        [],
        ["name", "[red]two"],
        ["from", "1"],
        ["to", "2"],
    ]


def test_what_is_empty_below_a_row_is_a_hyphen(tmp_path: Path) -> None:
    """Tags, keys and body share the line below a row. A message without tags showed its key where the tag belongs."""
    with package.open(tmp_path / "store", services=False) as store:
        store.put(Message(TOPIC, b"a body " * 9, keys=["only-a-key"]))
        store.put(Message(TOPIC, b"b body " * 9, tags="only-a-tag"))
        store.put(Message(TOPIC, b"c body " * 9))
        store.put(Message(TOPIC, b"", tags="tag", keys=["key-1", "key-2"]))
    for _, lines in shown("cat", tmp_path / "store", widths=(80, 100)):
        assert "  tags, keys, body" in lines
        below = [line for line in lines if re.match(r"  \S", line)][1:]
        assert [line[:21].rstrip() for line in below] == [
            "  -  only-a-key  a bo",
            "  only-a-tag  -  b bo",
            "  -  -  c body c body",
            "  tag  key-1 key-2  -",
        ]
