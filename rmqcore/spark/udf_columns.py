"""The columns of ``table=messages`` that a raw record alone can give."""

from __future__ import annotations

from collections.abc import Iterable

from rmqcore.spark.table_columns import TABLE_COLUMNS, Column

OF_A_STORE = ("broker", "resynced", "_file")
"""Those that tell of the store a record lies in."""
COLUMNS = {
    column.name: column for column in TABLE_COLUMNS["messages"] if column.name not in OF_A_STORE
}
DEFAULT = tuple(name for name, column in COLUMNS.items() if not column.on_request)


def chosen(columns: Iterable[str] | None) -> tuple[Column, ...]:
    """The fields of the struct.

    Raises
    ------
    ValueError
        A name that is no column of a raw record, one given twice, or none at all.
    """
    if isinstance(columns, str):
        raise TypeError(f"columns: expected an iterable of names, got the str {columns!r}")
    names = DEFAULT if columns is None else tuple(columns)
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise ValueError(
            f"columns: a raw record has no {', '.join(map(repr, unknown))}; there are {', '.join(COLUMNS)}"
        )
    if not names or len(set(names)) != len(names):
        raise ValueError("columns: at least one name, and each once")
    return tuple(COLUMNS[name] for name in names)
