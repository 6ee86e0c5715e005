"""Globs: what they stand for, and what is said of that which fits them and is no store."""

from __future__ import annotations

import fnmatch
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.cli.spark.run_options import RunOptions
from rmqcore.errors import NotAStoreError
from rmqcore.spark.storage.globs import alternatives
from rmqcore.spark.storage.locations import (
    NoStoreWarning,
    absolute_paths,
    find_stores,
    given_paths,
)


def made(*roots: Path) -> None:
    for root in roots:
        (root / "commitlog").mkdir(parents=True)


def roots(path: object) -> list[str]:
    return [store.root for store in find_stores(path)]  # type: ignore[arg-type]


def test_wildcards(tmp_path: Path) -> None:
    made(*(tmp_path / broker / "store" for broker in ("broker-b", "broker-a", ".snapshot")))
    (tmp_path / "broker-x").write_text("a file fits no directory")
    both = [f"{tmp_path}/broker-a/store", f"{tmp_path}/broker-b/store"]
    assert roots(f"{tmp_path}/*/store") == both
    assert roots(f"{tmp_path}/broker-[b-z]/stor?") == roots(f"{tmp_path}/broker-[^a]/*") == both[1:]
    assert roots(f"{tmp_path}/broker-[!b]/store") == both[:1]
    assert [store.broker for store in find_stores(f"x={tmp_path}/*-a/store")] == ["x"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("{a,b}/store", "ab"),
        ("{b,a,b}/store", "ab"),
        ("{a,{c,d}}/store", "acd"),
        ("{[ab],c*}/store", "abc"),
        ("{a/store,b/stor?}", "ab"),
        ("{a,b}{,x}/store", "ab"),
        ("*/{store,log}", "abcd"),
        ("{a,[b,c]}/store", "abc"),
        ("{a}/store", "a"),
        ("?{,}/store", "abcd"),
    ],
)
def test_braces(tmp_path: Path, glob: str, found: str) -> None:
    """There was no ``{a,b}``: the path was cut at the comma, and neither half was there."""
    made(*(tmp_path / name / "store" for name in "abcd"))
    expected = [f"{tmp_path}/{name}/store" for name in found]
    for path in (f"{tmp_path}/{glob}", f"file://{tmp_path}/{glob}", [f"{tmp_path}/{glob}"]):
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", NoStoreWarning
            )  # of what the braces spell out and is not there
            assert roots(path) == expected


def test_braces_in_a_list_of_paths(tmp_path: Path) -> None:
    made(*(tmp_path / name for name in "abc"))
    assert roots(f"{tmp_path}/{{a,b}}, x={tmp_path}/c") == [f"{tmp_path}/{name}" for name in "abc"]
    assert absolute_paths("/x/{a,{b,c}},/y,z") == ["/x/{a,{b,c}}", "/y", f"{Path.cwd()}/z"]
    assert given_paths("/x/{a,/y") == ["/x/{a", "/y"], (
        "a brace that is not closed holds nothing together"
    )
    assert given_paths("/x/a},{b,c}") == ["/x/a}", "{b,c}"]


def test_a_path_that_exists_is_no_glob(tmp_path: Path) -> None:
    made(tmp_path / "{a,b}", tmp_path / "a", tmp_path / "b", tmp_path / "c*")
    (tmp_path / "cd").mkdir()
    assert roots(f"{tmp_path}/{{a,b}}") == [f"{tmp_path}/{{a,b}}"]
    assert roots(f"{tmp_path}/{{a,b}},{tmp_path}/c*") == [f"{tmp_path}/{{a,b}}", f"{tmp_path}/c*"]


def test_braces_that_stand_for_too_much() -> None:
    with pytest.raises(ValueError, match="expand to more than 10000 patterns"):
        find_stores("/x/" + "{a,b}" * 14)
    with pytest.raises(ValueError, match="nested more than 50 deep"):
        find_stores("/x/" + "{" * 99 + "}" * 99)


def hadoop(pattern: str) -> str:
    """A pattern as the regular expression that Hadoop's GlobPattern makes of it."""
    text = ""
    depth = 0
    for character in pattern:
        depth += (character == "{") - (character == "}")
        known = {"{": "(?:", "}": ")", ",": "|" if depth else ",", "*": "[^/]*", "?": "[^/]"}
        text += known.get(character, character)
    return text


PATTERNS = st.recursive(
    st.text("ab?*", max_size=3),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda some: "{" + ",".join(some) + "}")
        | st.tuples(inner, inner).map("".join)
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("ab", min_size=1, max_size=4))
def test_braces_stand_for_what_hadoop_reads(pattern: str, name: str) -> None:
    fits = any(fnmatch.fnmatchcase(name, one) for one in alternatives(pattern))
    assert fits == bool(re.fullmatch(hadoop(pattern), name))


def test_what_fits_a_glob_and_is_no_store_is_told(tmp_path: Path) -> None:
    """A `lost+found` beside the stores failed the read.

    An empty mount point may be a store whose disk is missing: it is named.
    """
    made(tmp_path / "broker-a", tmp_path / "broker-b")
    for name in ("lost+found", "empty1", "empty2", "empty3"):
        (tmp_path / name).mkdir()
    told = (
        rf"{tmp_path}/\* matches 2 stores; 4 other matching paths are not read: {tmp_path}/empty1 has no commitlog/.*; "
        rf"{tmp_path}/empty2 .*; {tmp_path}/empty3 [^;]*; \.\.\.$"
    )
    with pytest.warns(NoStoreWarning, match=told):
        assert roots(f"{tmp_path}/*") == [f"{tmp_path}/broker-a", f"{tmp_path}/broker-b"]
    (tmp_path / "file").write_text("")
    told = (
        f"matches 1 stores; 2 other .* {tmp_path}/nowhere does not exist; {tmp_path}/file is not a "
        "directory$"
    )
    with pytest.warns(NoStoreWarning, match=told):
        assert roots(f"{tmp_path}/{{broker-a,nowhere,file}}") == [f"{tmp_path}/broker-a"]


def test_a_link_to_a_store_that_the_glob_meets_too(tmp_path: Path) -> None:
    """An alias ``current -> broker-a`` beside the stores failed the read: the store was "named twice"."""
    made(*(tmp_path / name / "store" for name in ("broker-a", "broker-b")))
    for name in ("a-first", "current"):
        (tmp_path / name).symlink_to(tmp_path / "broker-a")
    both = [f"{tmp_path}/broker-a/store", f"{tmp_path}/broker-b/store"]
    told = (
        rf"{tmp_path}/\*/store matches 2 stores under a second name, which are read once: "
        rf"{tmp_path}/a-first/store points to {tmp_path}/broker-a/store; {tmp_path}/current/store points to "
    )
    with pytest.warns(NoStoreWarning, match=told):
        found = find_stores(f"{tmp_path}/*/store")
    assert [store.root for store in found] == both
    assert [store.broker for store in found] == ["broker-a", "broker-b"]
    with pytest.warns(NoStoreWarning, match="under a second name"):
        assert roots(f"{tmp_path}/{{broker-a,cur*}}/store") == both[:1]
    assert roots(f"{tmp_path}/cur*/store") == [f"{tmp_path}/current/store"]


def test_several_links_to_a_store_that_no_wildcard_meets(tmp_path: Path) -> None:
    made(tmp_path / "disk" / "a")
    (tmp_path / "names").mkdir()
    for name in ("x", "y"):
        (tmp_path / "names" / name).symlink_to(tmp_path / "disk" / "a")
    with pytest.warns(NoStoreWarning, match="matches 1 stores under a second name"):
        assert roots(f"{tmp_path}/names/*") == [f"{tmp_path}/names/x"]


@pytest.mark.parametrize("given", ["{d}/a,{d}/link", "{d}/{{a,link}}", "{d}/a,{d}/*"])
def test_a_store_that_is_named_twice_is_refused(given: str, tmp_path: Path) -> None:
    made(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStoreWarning)
        with pytest.raises(ValueError, match="named twice"):
            find_stores(given.format(d=tmp_path))


def test_a_path_without_wildcards_must_be_a_store(tmp_path: Path) -> None:
    made(tmp_path / "broker-a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStoreError, match="empty has no commitlog/"):
        find_stores(f"{tmp_path}/broker-*,{tmp_path}/empty")


def test_a_glob_without_any_store(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).mkdir()
    told = rf"{tmp_path}/\* matches no store. 4 paths match but are not stores: {tmp_path}/a has no .*; {tmp_path}/b .*; \.\.\.$"
    with pytest.raises(NotAStoreError, match=told):
        find_stores(f"{tmp_path}/*")


def test_the_command_line_tells_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verb and the job behind it both look for the stores."""
    made(tmp_path / "a")
    (tmp_path / "b").mkdir()
    RunOptions().source_options([f"{tmp_path}/*"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Warning: {tmp_path}/* matches 1 stores; 1 other matching paths ")
    assert roots(f"{tmp_path}/*") == [f"{tmp_path}/a"], "a warning would be an error here"
