"""The names of stores (the column ``broker``): the same however a store is reached, different in a read."""

from __future__ import annotations

import json
import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.storage.store_names import names_by_path, unique_names


def made(*roots: Path) -> None:
    for root in roots:
        (root / "commitlog").mkdir(parents=True)


def named(path: object) -> dict[str, str]:
    return {store.broker: store.root for store in find_stores(path)}  # type: ignore[arg-type]


def test_a_store_has_one_name_however_it_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`broker` was `store` for /x/a/store and `a` for /x/*/store: offsets for the one were refused by the other."""
    made(tmp_path / "x" / "a" / "store")
    monkeypatch.chdir(tmp_path / "x")
    root = f"{tmp_path}/x/a/store"
    for path in (
        root,
        f"{root}/",
        f"{root}/commitlog",
        f"file://{root}",
        f"file:{root}/",
        "a/store",
        "./a/store",
        [root],
        json.dumps([root]),
        f"{tmp_path}/x/*/store",
        f"{tmp_path}/*/a/store",
        f"{tmp_path}/x/{{a,b*}}/store",
        f"{tmp_path}/x/../x/a/store",
        f"{tmp_path}/?/[a-b]/stor?",
    ):
        assert named(path) == {"a": root}, path


def test_names_that_would_be_alike_take_in_more_of_their_paths(tmp_path: Path) -> None:
    """Two list entries that end in /store were refused."""
    one, two, other = (tmp_path / path for path in ("h1/mq/store", "h2/mq/store", "h3/log"))
    made(one, two, other)
    assert named([f"{tmp_path}/h1/mq/store", tmp_path / "h3" / "log"]) == {
        "mq": str(one),
        "log": str(other),
    }
    expected = {"h1/mq": str(one), "h2/mq": str(two)}
    assert named([str(one), str(two)]) == named(f"{tmp_path}/*/mq/store") == expected
    assert named(f"{two},{one},log={other}") == {**expected, "log": str(other)}


def test_a_given_name_stays_and_the_other_store_takes_a_longer_one(tmp_path: Path) -> None:
    made(tmp_path / "p", tmp_path / "q" / "b")
    assert named([f"{tmp_path}/q/b", f"b={tmp_path}/p"]) == {
        "q/b": f"{tmp_path}/q/b",
        "b": f"{tmp_path}/p",
    }


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/data/broker-a/store", ("broker-a", "data/broker-a", "/data/broker-a/store")),
        ("/data/broker-a", ("broker-a", "data/broker-a", "/data/broker-a")),
        ("/store", ("store", "/store")),
        ("/", ("/",)),
        ("s3://bucket/a/store", ("a", "bucket/a", "s3://bucket/a/store")),
        ("s3://bucket/store", ("bucket", "s3://bucket/store")),
        ("hdfs:///store", ("store", "hdfs:///store")),
    ],
)
def test_names_by_path(path: str, names: tuple[str, ...]) -> None:
    assert names_by_path(path) == names


@given(st.sets(st.text("ab/", max_size=8).map(lambda text: posixpath.normpath(f"/{text}/store"))))
def test_every_set_of_paths_has_different_names(paths: set[str]) -> None:
    order = sorted(paths)
    names = unique_names([("", names_by_path(path)) for path in order])
    assert len(set(names)) == len(paths)
    backwards = unique_names([("", names_by_path(path)) for path in reversed(order)])
    assert backwards == names[::-1], "the order in which stores are given does not count"


def test_two_stores_of_one_name(tmp_path: Path) -> None:
    made(tmp_path / "a" / "store", tmp_path / "b" / "store")
    with pytest.raises(ValueError, match=r"two stores have the name x.*broker-a=/data/a/store"):
        find_stores([f"x={tmp_path}/a/store", f"x={tmp_path}/b/store"])
    with pytest.raises(ValueError, match=r"two stores have the name x"):
        find_stores(f"x={tmp_path}/*/store")
