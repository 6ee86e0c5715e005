"""Writes the tables of options and columns into docs/spark.md: python scripts/sparktables.py."""

from __future__ import annotations

import re
from pathlib import Path

from rmqcore.spark.options.sink_options import SINK_OPTIONS
from rmqcore.spark.options.table import OPTIONS, TABLES, Option
from rmqcore.spark.rows.columns import TABLE_COLUMNS


def markdown(text: str) -> str:
    """A docstring's text as the text of a Markdown cell."""
    return text.replace("``", "`").replace("|", "\\|")


def options() -> str:
    """The options of the data source as a Markdown table."""
    rows = ["| option | default | tables | meaning |", "|---|---|---|---|"]
    rows += [option_row(option) for option in OPTIONS]
    return "\n".join(rows)


def sink_options() -> str:
    """The options of a write as a Markdown table."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in SINK_OPTIONS:
        default = f"`{option.default}`" if option.default else ""
        rows.append(f"| `{option.name}` | {default} | {markdown(option.doc)} |")
    return "\n".join(rows)


def option_row(option: Option) -> str:
    """The row of one option in that table."""
    tables = "all" if option.tables == TABLES else ", ".join(option.tables)
    names = ", also ".join(f"`{name}`" for name in (option.name, *option.aliases))
    default = f"`{option.default}`" if option.default else ""
    return f"| {names} | {default} | {tables} | {markdown(option.doc)} |"


def columns(table: str) -> str:
    """The columns of a table as a Markdown table."""
    rows = ["| column | type | |", "|---|---|---|"]
    for column in TABLE_COLUMNS[table]:
        asked = " *On request.*" if column.on_request else ""
        rows.append(f"| `{column.name}` | `{column.type}` | {markdown(column.doc)}{asked} |")
    return "\n".join(rows)


def filled(page: str) -> str:
    """The page with the table behind each ``<!-- sparktables: NAME -->`` made anew."""
    tables = {
        "options": options(),
        "sink": sink_options(),
        **{name: columns(name) for name in TABLE_COLUMNS},
    }
    for name, text in tables.items():
        mark = f"<!-- sparktables: {name} -->\n"
        before, found, after = page.partition(mark)
        if not found:
            raise ValueError(f"sparktables: the page has no place for {name}")
        page = before + mark + text + "\n" + re.sub(r"\A(\|.*\n)*", "", after)
    return page


if __name__ == "__main__":
    path = Path(__file__).resolve().parent.parent / "docs" / "spark.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
