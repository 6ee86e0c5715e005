"""The tools of the command line as functions of the package: a path in, a report out."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.shown.report import Report

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path / "store", services=False, **SMALL) as store:
        for number in range(20):
            store.put(Message("Orders", b"body", number % 2, keys=(f"K{number}",)))
        while store.dispatch_once():
            pass
    return tmp_path / "store"


CALLS: dict[str, Callable[[Path, Path], Report]] = {
    "fsck": lambda root, out: rmqcore.fsck(root),
    "export": lambda root, out: rmqcore.export(root, out, file_format="jsonl"),
    "rebuild": lambda root, out: rmqcore.rebuild(str(root), str(out)),
    "backup": rmqcore.backup,
    "diff": lambda root, out: rmqcore.diff(root, root),
    "doctor": lambda root, out: rmqcore.doctor(root),
    "retention": lambda root, out: rmqcore.retention(root),
    "salvage": rmqcore.salvage,
    "stats": lambda root, out: rmqcore.stats(root),
}


@pytest.mark.parametrize("tool", CALLS)
def test_a_path_is_enough_and_the_report_is_one(root: Path, tmp_path: Path, tool: str) -> None:
    report = CALLS[tool](root, tmp_path / "out")
    assert isinstance(report, Report)
    shown = report.as_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert str(root) in (shown.get("path"), shown.get("a"))
    assert str(root) in report._repr_html_()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    for call in CALLS.values():
        with pytest.raises(FileNotFoundError, match="nowhere"):
            call(tmp_path / "nowhere", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_room_of_the_package_never_hides_a_tool() -> None:
    """A package of the name is set as an attribute when it is imported: `rmqcore.rebuild` was one."""
    modules = {module.name for module in pkgutil.iter_modules(rmqcore.__path__)}
    assert modules & set(rmqcore.__all__) == {"codec"}
    for name in modules - {"__main__"}:
        importlib.import_module(f"rmqcore.{name}")
    assert callable(rmqcore.rebuild)
