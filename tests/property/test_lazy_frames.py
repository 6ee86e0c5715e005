"""Queries over a store through Polars, DuckDB and pyarrow's filters give what the same query over the whole frame gives.

Conditions reach the scan, columns that nobody names are not built, and a slice ends it: none of it may change an answer, whatever
the records are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.odd_records import QUEUE_IDS, TIMES_MS, write_odd_store
from support.stores.store_maker import START_MS

import rmqcore
from rmqcore.offline.frames.columns import DEFAULT_COLUMNS, FIRST_MS, LAST_MS, FrameColumns
from rmqcore.offline.lazy.polars_predicate import conditions_of
from rmqcore.offline.lazy.store_dataset import StoreDataset
from rmqcore.offline.lazy.store_rows import StoreRows

COLUMNS = [*DEFAULT_COLUMNS, "store_timestamp_ms", "raw"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]

texts = st.sampled_from(
    [
        "TopicA",
        "日本",
        "topic",
        "a b",
        'it\'s "q"\\',
        "Top�ic",
        "T\0T",
        "%like_",
        "Tag0",
        "TagA",
        "TagB",
        "Tag�",
        "",
        "a",
        "b",
        "all",
        "k3",
    ]
)
ints32 = st.sampled_from([*QUEUE_IDS, 2, 5, 300])
offsets = st.integers(-2, 12_000)
times_ms = st.sampled_from([ms for ms in TIMES_MS if FIRST_MS <= ms <= LAST_MS]) | st.integers(
    START_MS - 10, START_MS + 30_000
)
instants = st.builds(
    lambda ms, us: (
        max(
            EPOCH + timedelta(milliseconds=ms), datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
        )
        + timedelta(microseconds=us)
    ),
    times_ms.filter(lambda ms: ms < LAST_MS),
    st.sampled_from([0, 0, 1, -1, 500, 999]),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_odd_store(tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="module")
def whole(store: Path) -> pl.DataFrame:
    return rmqcore.read(store).to_polars(COLUMNS)


# ---- Polars -----------------------------------------------------------------------------------------


def compared(left: pl.Expr, operator: str, right: Any) -> pl.Expr:
    tests: dict[str, Any] = {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }
    found: pl.Expr = tests[operator]
    return found


def polars_tests(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[pl.Expr]:
    """Tests of columns that have such values."""
    columns = st.sampled_from([pl.col(name) for name in names])
    return st.one_of(
        st.builds(compared, columns, st.sampled_from(COMPARISONS), values),
        st.builds(compared, values.map(pl.lit), st.sampled_from(COMPARISONS), columns),
        st.builds(
            lambda c, v: c.is_in(v), columns, st.lists(values | st.none(), min_size=1, max_size=4)
        ),
        st.builds(
            lambda c, low, high, closed: c.is_between(pl.lit(low), pl.lit(high), closed=closed),
            columns,
            values,
            values,
            st.sampled_from(["both", "left", "right", "none"]),
        ),
        st.builds(lambda c, v: c.eq_missing(pl.lit(v)), columns, values | st.none()),
        st.builds(lambda c, v: c.ne_missing(pl.lit(v)), columns, values | st.none()),
        columns.map(lambda c: c.is_null()),
    )


atoms = st.one_of(
    polars_tests(["topic", "tags", "uniq_key", "born_host"], texts),
    polars_tests(["queue_id", "msg_size"], ints32),
    polars_tests(["phy_offset", "store_timestamp_ms"], offsets),
    polars_tests(["store_timestamp_ms"], st.sampled_from(TIMES_MS)),
    polars_tests(["store_timestamp", "born_timestamp"], instants),
    texts.map(pl.col("keys").list.contains),
    texts.map(pl.col("topic").str.starts_with),
    st.just(pl.col("topic") == pl.col("tags")),
    st.booleans().map(pl.lit),
)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a, b: a ^ b, inner, inner),
        inner.map(lambda a: ~a),
        st.builds(pl.any_horizontal, inner, inner),
        st.builds(lambda a, b, c: pl.when(a).then(b).otherwise(c), inner, inner, inner),
    ),
    max_leaves=6,
)
steps = st.lists(
    st.one_of(
        predicates.map(lambda p: lambda frame: frame.filter(p)),
        predicates.map(lambda p: lambda frame: frame.filter(p)),
        st.integers(0, 70).map(lambda n: lambda frame: frame.head(n)),
        st.integers(0, 70).map(lambda n: lambda frame: frame.tail(n)),
        st.builds(
            lambda at, n: lambda frame: frame.slice(at, n), st.integers(-60, 60), st.integers(0, 40)
        ),
    ),
    max_size=4,
)
chosen = st.none() | st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1, max_size=4)


@given(steps, chosen, st.sampled_from(["in-memory", "streaming"]))
def test_a_lazy_frame_answers_as_the_whole_frame(
    store: Path, whole: pl.DataFrame, steps: list[Any], names: list[str] | None, engine: Any
) -> None:
    lazy, expected = rmqcore.scan(store, COLUMNS), whole.lazy()
    for step in steps:
        lazy, expected = step(lazy), step(expected)
    if names is not None:
        lazy, expected = lazy.select(names), expected.select(names)
    assert lazy.collect(engine=engine).equals(expected.collect())


@given(predicates)
def test_counts_agree(store: Path, whole: pl.DataFrame, predicate: pl.Expr) -> None:
    count = rmqcore.scan(store, COLUMNS).filter(predicate).select(pl.len()).collect().item()
    assert count == whole.filter(predicate).height


@given(predicates)
def test_the_conditions_of_a_predicate_lose_no_row_that_it_keeps(
    store: Path, whole: pl.DataFrame, predicate: pl.Expr
) -> None:
    """As a user writes it: Polars makes literals of the column's type, and null tests of comparisons, before a scan sees it."""
    conditions = conditions_of(predicate).keywords()
    found = {view.phy_offset for view in rmqcore.read(store).messages(**conditions)}
    assert found >= set(whole.filter(predicate)["phy_offset"])


# ---- pyarrow ----------------------------------------------------------------------------------------


def arrow_tests(
    names: list[str], values: st.SearchStrategy[Any], kind: pa.DataType
) -> st.SearchStrategy[Any]:
    columns = st.sampled_from([pc.field(name) for name in names])
    scalars = values.map(lambda value: pa.scalar(value, kind))
    return st.one_of(
        st.builds(compared, columns, st.sampled_from(COMPARISONS), scalars),
        st.builds(
            lambda c, v: c.isin(pa.array(v, kind)),
            columns,
            st.lists(values | st.none(), max_size=4),
        ),
        columns.map(lambda c: c.is_null()),
        columns.map(lambda c: c.is_valid()),
    )


arrow_atoms = st.one_of(
    arrow_tests(["topic", "tags", "uniq_key", "born_host"], texts, pa.string()),
    arrow_tests(["queue_id", "msg_size"], ints32, pa.int32()),
    arrow_tests(["phy_offset", "store_timestamp_ms"], offsets, pa.int64()),
    arrow_tests(["store_timestamp_ms"], st.sampled_from(TIMES_MS), pa.int64()),
    arrow_tests(["store_timestamp", "born_timestamp"], times_ms, pa.timestamp("ms", "UTC")),
    st.booleans().map(pc.scalar),
)
arrow_filters = st.recursive(
    arrow_atoms,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda a: ~a),
        # As DuckDB writes a list of values: null where the column is.
        st.builds(
            lambda a, b: pc.if_else(a.is_valid(), b, pa.scalar(None, pa.bool_())), inner, inner
        ),
    ),
    max_leaves=6,
)


@given(arrow_filters, st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1, max_size=4))
def test_a_filter_of_pyarrow_answers_as_over_the_whole_table(
    store: Path, given_filter: pc.Expression, names: list[str]
) -> None:
    rows = StoreRows(store, {}, verify_crc=False, on_damage=None)
    dataset = StoreDataset(rows, FrameColumns(COLUMNS))
    found = dataset.scanner(columns=names, filter=given_filter).to_reader().read_all()
    table = rmqcore.read(store).to_arrow(COLUMNS).filter(given_filter).select(names)
    assert found.combine_chunks().equals(table.combine_chunks())


# ---- DuckDB -----------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


sql_texts = texts.filter(lambda text: "\0" not in text).map(quoted)
sql_times = instants.filter(lambda when: when.year >= 1000).map(
    lambda when: f"timestamptz '{when.replace(tzinfo=None).isoformat(' ')}+00'"
)


def sql_tests(names: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    columns, operators = st.sampled_from(names), st.sampled_from(["=", *COMPARISONS[1:]])
    return st.one_of(
        st.builds("{} {} {}".format, columns, operators, values),
        st.builds(
            lambda c, vs: f"{c} in ({', '.join(vs)})",
            columns,
            st.lists(values, min_size=1, max_size=4),
        ),
        st.builds("{} between {} and {}".format, columns, values, values),
        columns.map("{} is null".format),
        columns.map("{} is not null".format),
    )


sql_atoms = st.one_of(
    sql_tests(["topic", "tags", "uniq_key"], sql_texts),
    sql_tests(["queue_id", "msg_size"], ints32.map(str)),
    sql_tests(["phy_offset", "store_timestamp_ms"], offsets.map(str)),
    sql_tests(["store_timestamp", "born_timestamp"], sql_times),
)
sql_conditions = st.recursive(
    sql_atoms,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        inner.map("not ({})".format),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def connection(store: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    rmqcore.duckdb_view(connection, "store", store, COLUMNS)
    connection.register("whole", rmqcore.read(store).to_arrow(COLUMNS))
    return connection


@given(sql_conditions, st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1, max_size=4))
def test_a_view_answers_as_the_whole_table(
    connection: duckdb.DuckDBPyConnection, condition: str, names: list[str]
) -> None:
    query = f"select {', '.join(names)} from {{}} where {condition} order by phy_offset"
    found = connection.sql(query.format("store")).fetchall()
    assert found == connection.sql(query.format("whole")).fetchall()
