"""The options of tables in Spark's catalog: taken from what Spark hands over, kept in the columns, found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqcore.spark.options.catalog_tables import (
    keep_options,
    names_new_table,
    options_of_new_table,
    options_of_read,
    with_kept_options,
)
from rmqcore.spark.rows.columns import MESSAGES
from rmqcore.spark.rows.schema import spark_schema

HANDED_OVER = {
    "provider": "rmqstore",
    "owner": "root",
    "location": "file:/data/a b%20",
    "path": "file:/data/a b%20",
    "external": "true",
    "comment": "orders",
    "created_by": "a property",
    "topics": "Orders",
    "option.topics": "Orders",
    "option.storage.region": "eu",
    "storage.region": "eu",
}
"""What Spark 4 hands a source for the columns of a new table."""
KEPT = {"path": '["/data/a b%20"]', "topics": "Orders", "storage.region": "eu"}


def test_what_spark_adds_to_the_options_of_a_table_is_no_option() -> None:
    """`CREATE TABLE t USING rmqstore OPTIONS (path '...')` failed with "unknown option owner"."""
    assert names_new_table(HANDED_OVER)
    assert options_of_new_table(HANDED_OVER) == KEPT
    assert not names_new_table({"path": "/data/store"})
    assert not names_new_table(
        {"path": "/data/store", "provider": "rmqstore"}
    )  # an option that does not exist


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": "s3a://bucket/a"}, ["s3a://bucket/a"]),
        ({"path": "a=/data/a,b=/data/b"}, ["a=/data/a", "b=/data/b"]),
        ({"path": "stores/a"}, [f"{Path.cwd()}/stores/a"]),
        ({"option.paths": '["/data/a,b", "c"]'}, ["/data/a,b", f"{Path.cwd()}/c"]),
    ],
)
def test_paths_are_those_of_any_working_directory(given: dict[str, str], paths: list[str]) -> None:
    found = options_of_new_table({"provider": "rmqstore"} | given)
    assert found.keys() == {"path"} and json.loads(found["path"]) == paths


def test_options_that_a_table_cannot_have() -> None:
    with pytest.raises(
        ValueError, match=r"topicspattern has no effect in TBLPROPERTIES: move it to OPTIONS"
    ):
        options_of_new_table(HANDED_OVER | {"topicspattern": "x"})
    with pytest.raises(
        ValueError, match=r"^option storage.secret_key: every user who can see"
    ) as caught:
        options_of_new_table(HANDED_OVER | {"option.storage.secret_key": "hush"})
    assert "hush" not in str(caught.value)


def test_options_are_found_again_in_the_columns() -> None:
    columns = spark_schema(MESSAGES)
    table = keep_options(columns, KEPT)
    assert [field.dataType for field in table] == [field.dataType for field in columns]
    assert table.names == columns.names
    again = type(table).fromJson(json.loads(table.json()))
    assert options_of_read({}, again) == KEPT
    assert options_of_read({"Topics": "Other", "tags": "x"}, again) == KEPT | {
        "topics": "Other",
        "tags": "x",
    }


@pytest.mark.parametrize("given", [{"PATH": "/data/b"}, {"paths": '["/data/b"]'}])
def test_another_path_is_read_without_the_options_of_the_table(given: dict[str, str]) -> None:
    """A frame's columns may be given to a read of another store, which would lack rows by a condition that nobody gave."""
    table = keep_options(spark_schema(MESSAGES), KEPT)
    assert options_of_read(given, table) == {name.lower(): text for name, text in given.items()}


def test_a_table_without_options_says_how_to_read_it() -> None:
    with pytest.raises(
        ValueError, match=r"path is missing.*WITH \(path '...'\), or create a temporary view"
    ):
        options_of_read({"topics": "x"}, spark_schema(MESSAGES))


def test_metadata_of_others_is_passed_over() -> None:
    assert with_kept_options({}, [{"comment": "x"}, {}, {"rmqstore": KEPT}]) == KEPT
