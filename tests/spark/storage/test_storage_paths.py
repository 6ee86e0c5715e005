"""What a user may give as path, on local disks: stores, lists, globs, names; and what is said when it does not fit."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import rmqcore
from rmqcore.errors import NotAStoreError, StoreError
from rmqcore.spark.storage.locations import StoreLocation, absolute_paths, find_stores, given_paths


def made(*roots: Path) -> None:
    for root in roots:
        (root / "commitlog").mkdir(parents=True)


def named(path: object) -> dict[str, str]:
    return {store.broker: store.root for store in find_stores(path)}  # type: ignore[arg-type]


def test_one_store_is_named_by_its_directory(tmp_path: Path) -> None:
    made(tmp_path / "broker-a")
    assert find_stores(str(tmp_path / "broker-a")) == [
        StoreLocation("broker-a", str(tmp_path / "broker-a"))
    ]
    assert named(f"{tmp_path}/broker-a/") == {"broker-a": str(tmp_path / "broker-a")}
    assert named(tmp_path / "broker-a") == {"broker-a": str(tmp_path / "broker-a")}
    assert named(f"file://{tmp_path}/broker-a") == {"broker-a": str(tmp_path / "broker-a")}
    assert named(f"FILE://{tmp_path}/broker-a") == {"broker-a": str(tmp_path / "broker-a")}
    assert named(f"file:{tmp_path}/broker-a") == {"broker-a": str(tmp_path / "broker-a")}


def test_paths_for_a_process_that_runs_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an os.chdir in a notebook Spark's planner, which runs where Spark was started, found nothing by a relative glob."""
    made(tmp_path / "a", tmp_path / "x=y")
    monkeypatch.chdir(tmp_path)
    given = "a,b*,n=a,x=y,/c/d,s3://bucket/e,n=s3://bucket/e,file:/f,n=/g"
    here = str(tmp_path)
    assert absolute_paths(given) == [
        f"{here}/a",
        f"{here}/b*",
        f"n={here}/a",
        f"{here}/x=y",
        "/c/d",
        "s3://bucket/e",
        "n=s3://bucket/e",
        "file:/f",
        "n=/g",
    ]
    assert absolute_paths([Path("a"), ""]) == [f"{here}/a", ""]


def test_an_empty_path_in_a_list_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two paths were given, one by a variable that was not set: in a store's own directory this read that store too."""
    made(tmp_path / "a", tmp_path / "b")
    monkeypatch.chdir(tmp_path / "b")
    for given in ([str(tmp_path / "a"), ""], json.dumps([str(tmp_path / "a"), ""])):
        with pytest.raises(ValueError, match="one of the paths is empty"):
            find_stores(given)


def test_a_commitlog_directory_stands_for_its_store(golden: Path) -> None:
    root = golden / "basic" / "store"
    (store,) = find_stores(str(root / "commitlog"))
    assert (store.broker, store.root) == ("basic", str(root))
    assert store.log_files() == rmqcore.read(root).log_files()


def test_a_commitlog_of_another_name(golden: Path, tmp_path: Path) -> None:
    root = tmp_path / "disk" / "log-a"
    root.parent.mkdir()
    root.symlink_to(golden / "basic" / "store" / "commitlog")
    (store,) = find_stores(str(root))
    assert store.broker == "log-a"
    assert [file.file_from_offset for file in store.log_files()] == [
        file.file_from_offset for file in rmqcore.read(golden / "basic" / "store").log_files()
    ]


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "a", tmp_path / "b")
    monkeypatch.chdir(tmp_path / "a")
    assert named(".") == {"a": str(tmp_path / "a")}
    assert named("../b") == {"b": str(tmp_path / "b")}


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ("/a", ["/a"]),
        ("/a,/b", ["/a", "/b"]),
        (" /a , x=/b ,", ["/a", "x=/b"]),
        ('["/a", "x=/b,c"]', ["/a", "x=/b,c"]),
        ("[ab]*/store", ["[ab]*/store"]),
        (["/a,b", Path("/c")], ["/a,b", "/c"]),
        ("", []),
    ],
    ids=repr,
)
def test_texts_that_hold_several(given: str | list[str], paths: list[str]) -> None:
    assert given_paths(given) == paths


def test_a_comma_or_an_equals_sign_in_a_path_that_exists(tmp_path: Path) -> None:
    odd = tmp_path / "a,b" / "day=1" / "x*[1]"
    made(odd)
    assert named(str(odd)) == {"x*[1]": str(odd)}


def test_lists_and_names(tmp_path: Path) -> None:
    made(tmp_path / "a" / "store", tmp_path / "b" / "store")
    pairs = [f"one={tmp_path}/a/store", f"two={tmp_path}/b/store"]
    expected = {"one": f"{tmp_path}/a/store", "two": f"{tmp_path}/b/store"}
    assert named(pairs) == expected
    assert named(",".join(pairs)) == expected
    assert named(json.dumps(pairs)) == expected


# ---- what does not fit --------------------------------------------------------------------------


def test_no_such_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        find_stores(str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"nothing matches the pattern.*\*/store"):
        find_stores(f"{tmp_path}/*/store")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        find_stores(str(tmp_path / "file"))
    with pytest.raises(ValueError, match="path is missing"):
        find_stores([])


def test_no_store_in_there(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="has no commitlog/") as caught:
        find_stores(str(tmp_path))
    assert "give" not in str(caught.value)


def test_a_directory_of_stores_is_told_as_such(tmp_path: Path) -> None:
    made(*(tmp_path / name for name in "abcd"))
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(NotAStoreError, match=r"4 of its directories have \(a, b, c, ...\).*/\*$"):
        find_stores(str(tmp_path))


def test_one_store_twice(tmp_path: Path) -> None:
    made(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ValueError, match="named twice"):
        find_stores([f"x={tmp_path}/a", f"y={tmp_path}/link"])


def test_storage_options_without_a_remote_path(tmp_path: Path) -> None:
    made(tmp_path / "a")
    with pytest.raises(ValueError, match=r"storage\.region does not apply"):
        find_stores(str(tmp_path / "a"), {"region": "eu-1"})


def test_an_unreadable_directory_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests may run as root, whom no permission stops: the refusal comes from a listing that was replaced."""
    made(tmp_path / "a")

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="a'"):
        find_stores(str(tmp_path / "a"))


# ---- a location ---------------------------------------------------------------------------------


def test_a_local_location_gives_the_store_itself(golden: Path) -> None:
    root = golden / "basic" / "store"
    (store,) = find_stores(str(root))
    assert pickle.loads(pickle.dumps(store)) == store
    assert store.is_local
    assert store.names("consumequeue") == {
        entry.name: True for entry in sorted((root / "consumequeue").iterdir())
    }
    assert store.names("nothing") == {}
    with store.local_copy("consumequeue") as paths:
        assert paths.consumequeue == root / "consumequeue"


def test_a_remote_location_has_no_local_paths() -> None:
    store = StoreLocation("a", "s3://bucket/a", (("secret_key", "hush"),))
    with pytest.raises(StoreError, match="not on a local disk"):
        _ = store.paths
    assert "hush" not in repr(store)
