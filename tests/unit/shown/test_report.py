"""What every report has: plain values for JSON, and tables for a notebook."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from rmqcore.shown.html_tables import SHOWN_ROWS, SHOWN_TEXT, shown
from rmqcore.shown.report import Report


@dataclass(frozen=True)
class Range:
    begin_phy_offset: int
    kind: str


@dataclass(frozen=True)
class Found(Report):
    path: Path
    records: int
    counts: dict[str, int]
    damage: list[Range]
    seconds: float | None = None
    source: object = field(default=None, repr=False)


def test_as_dict_is_what_json_takes() -> None:
    found = Found(Path("/store"), 3, {"T": 1}, [Range(7, "torn")], source=object())
    plain = {
        "path": "/store",
        "records": 3,
        "counts": {"T": 1},
        "damage": [{"begin_phy_offset": 7, "kind": "torn"}],
        "seconds": None,
    }
    assert found.as_dict() == plain
    assert json.loads(json.dumps(found.as_dict())) == plain


def test_a_part_says_itself_what_it_is() -> None:
    class Told:
        def as_dict(self) -> dict[str, int]:
            return {"told": 1}

    assert Found(Path("s"), 1, {}, [Told()]).as_dict()["damage"] == [{"told": 1}]  # type: ignore[list-item]


def test_a_notebook_gets_tables_and_no_markup_of_a_stranger() -> None:
    """Topics and paths are what somebody else wrote: they are shown as text."""
    found = Found(Path("/<script>"), 1_234_567, {}, [Range(9, "<b>bold")] * (SHOWN_ROWS + 1))
    text = found._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert "<b>bold" not in text
    assert "1,234,567" in text
    assert text.count("&lt;b&gt;bold") == SHOWN_ROWS
    assert f"{SHOWN_ROWS + 1}, showing the first {SHOWN_ROWS}" in text


@dataclass(frozen=True)
class Outer(Report):
    number: int
    inner: Report


def test_a_report_in_a_report_has_its_own_tables() -> None:
    """It was one cell, with all of its lists as text."""

    @dataclass(frozen=True)
    class Inner(Report):
        items: tuple[dict[str, int], ...]

    outer = Outer(4711, Inner(({"one": 1}, {"one": 2})))
    text = outer._repr_html_()
    assert "<b>items</b> (2)" in text
    assert "{" not in text
    assert outer.as_dict() == {"number": 4711, "inner": {"items": [{"one": 1}, {"one": 2}]}}


def test_values_as_people_read_them() -> None:
    """A store time had commas between its digits, an offset could not be copied, and a cell held a whole list."""
    assert shown("store_timestamp_ms", 1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
    assert shown("store_timestamp_ms", 0) == "0"
    assert shown("store_timestamp_ms", 2**62) == str(2**62)
    assert shown("max_phy_offset", 1_073_741_824) == "1073741824"
    assert shown("records", 1_073_741_824) == "1,073,741,824"
    assert shown("abort", True) == "True"
    assert shown("seconds", 1234.567891) == "1,234.5679"
    assert shown("by_topic", {"A": 1_000, "B": 2}) == "A: 1,000, B: 2"
    assert shown("queues", [["T", 0]]) == "T, 0"
    assert shown("files", list(range(SHOWN_ROWS + 2))).endswith("49 and 2 more")
    assert shown("text", "x" * 1_000) == f"{'x' * SHOWN_TEXT}… (1,000 characters)"


def test_text_that_no_screen_can_show() -> None:
    """A file name that is not UTF-8 has lone surrogates, which Jupyter cannot send; other marks turn the text round."""
    found = Found(Path("/\udcff\u202e"), 1, {}, [])
    text = found._repr_html_()
    text.encode()
    assert "/\\udcff\\u202e" in text
