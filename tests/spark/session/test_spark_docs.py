"""docs/spark.md says what is there: options, columns, jobs and UDFs; and what it derives follows from what it measured."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
from support.places import ROOT

import rmqcore.spark
from rmqcore.spark.options.source_options import SourceOptions, parse_value
from rmqcore.spark.options.table import OPTIONS
from rmqcore.spark.rows.columns import TABLE_COLUMNS

PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
TB = 10**12
ESTATE = 100 * TB


@pytest.fixture(scope="module")
def sparktables() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "sparktables", ROOT / "scripts" / "sparktables.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def first_cells(text: str) -> list[str]:
    """Names in the first column of the tables of a text."""
    return re.findall(r"^\| `(\w+)", text, re.MULTILINE)


def test_the_tables_in_the_page_are_the_printed_ones(sparktables: ModuleType) -> None:
    assert sparktables.filled(PAGE) == PAGE


def test_a_page_without_a_place_is_refused(sparktables: ModuleType) -> None:
    with pytest.raises(ValueError, match="no place for options"):
        sparktables.filled("# Nothing\n")


def test_exactly_the_options_that_exist_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)`[^|]*\| (?:`([^`]*)`)? \|", section("Options"), re.MULTILINE)
    assert [name for name, _ in rows] == [option.name for option in OPTIONS]
    set_by_nobody = SourceOptions()
    for (_, default), option in zip(rows, OPTIONS, strict=True):
        if default:
            assert parse_value(option, default) == getattr(set_by_nobody, option.field)
        else:
            assert getattr(set_by_nobody, option.field) in (None, ())


def test_exactly_the_tables_and_columns_that_exist() -> None:
    text = section("Tables and columns")
    chosen, *_ = text.partition("<!-- sparktables")
    assert set(first_cells(chosen)) == set(TABLE_COLUMNS)
    for table, columns in TABLE_COLUMNS.items():
        listed = text.partition(f"<!-- sparktables: {table} -->\n")[2].partition("\n\n")[0]
        assert first_cells(listed) == [column.name for column in columns]


def test_every_job_is_listed_and_there() -> None:
    others = {
        "DamageCounter",
        "StoreLag",
        "explain",
        "optimize",
        "read",
        "read_with_map",
        "register",
        "session",
        "short_error",
        "sql",
        "stream_lag",
    }
    jobs = {name for name in rmqcore.spark.__all__ if name not in others}
    text = section("Jobs")
    assert set(first_cells(text)) <= jobs
    assert {name for name in jobs if f"`{name}" in text} == jobs


def test_every_udf_is_listed() -> None:
    udf = pytest.importorskip("rmqcore.spark.udf")
    kernels = set(udf.functions._KERNELS)
    assert set(first_cells(section("UDFs"))) == kernels | {"decode_message"}
    assert set(udf.__all__) == kernels - {"corrupt_reason"} | {"decode_message", "register"}


def rounded(number: float, like: str) -> str:
    digits = len(like.partition(".")[2])
    return f"{number:,.{digits}f}"


def test_cost_and_core_hours_follow_from_the_measured_seconds() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| ([\d.]+) \| ([\d.]+) \| (\d+) \| ([\d.]+) \|$",
        section("Scale on paper"),
        re.MULTILINE,
    )
    assert len(rows) == 6
    for measured, hours_a_tb, hours, dollars in rows:
        hours_of_a_tb = float(measured) * 1000 / 3600
        assert rounded(hours_of_a_tb, hours_a_tb) == hours_a_tb
        assert rounded(100 * hours_of_a_tb, hours) == hours
        assert rounded(0.05 * hours_of_a_tb, dollars) == dollars


def test_tasks_plan_and_shuffle_follow_from_their_parts() -> None:
    text = section("Scale on paper")
    parts, files = -(-ESTATE // (128 << 20)), -(-ESTATE // (1 << 30))
    measured = re.search(r"^\| `audit` \| ([\d.]+) \|", text, re.MULTILINE)
    assert measured is not None
    audit = float(measured[1])
    messages = ESTATE / 421
    derived = [
        f"| tasks for 100 TB | {parts:,} | {files:,} |",
        f"| CPU s of a task that audits | {audit * (128 << 20) / 1e9:.2f} | {audit * (1 << 30) / 1e9:.2f} |",
        f"0.5 KB for each task: {parts * 500 / 1e6:.0f} MB | {files * 500 / 1e6:.0f} MB |",
        f"A core that audits takes {1 / audit:.2f} GB/s",
        f"Sixteen cores of a node would take {16 / audit:.1f} GB/s",
        f"{ESTATE / (25e9 / 8) / 10 / 60:.0f} minutes",
        f"{ESTATE / (8 << 20) / 1e6:.1f} million ranges of 8 MiB",
        f"{messages / 1e9:.1f} billion messages of 421 bytes are {28 * messages / TB:.1f} TB",
        f"{100 * 28 / 421:.1f} % of the log",
    ]
    for words in derived:
        assert words in text
