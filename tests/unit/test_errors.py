"""Errors: the codes that scripts rely on, the exit codes of the command line, and the table in docs/cli.md."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import pkgutil
from types import ModuleType

import pytest
from support.places import ROOT

import rmqcore
from rmqcore import errors

ERRORS = [value for value in vars(errors).values() if inspect.isclass(value)]


@pytest.fixture(scope="module")
def errorlist() -> ModuleType:
    spec = importlib.util.spec_from_file_location("errorlist", ROOT / "scripts" / "errorlist.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_bears_a_code_of_its_own_and_an_exit_code(
    error: type[errors.StoreError],
) -> None:
    assert issubclass(error, errors.StoreError)
    assert "code" in vars(error), (
        "a code inherited from the parent class tells nobody which error it was"
    )
    assert error.code.isupper()
    assert error.exit_code in {1, 2}


def test_every_error_of_the_package_is_in_its_one_file() -> None:
    for module in pkgutil.walk_packages(rmqcore.__path__, "rmqcore."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    below, found = [errors.StoreError], set()
    while below:
        found.add(error := below.pop())
        below += error.__subclasses__()
    assert {error for error in found if error.__module__.startswith("rmqcore")} == set(ERRORS)


def test_no_two_errors_share_a_code(errorlist: ModuleType) -> None:
    assert set(errorlist.error_classes()) == set(ERRORS)
    assert errorlist.shared_codes() == []


def test_a_shared_code_is_found(errorlist: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.CompressionError, "code", errors.NotAStoreError.code)
    assert errorlist.shared_codes() == [errors.NotAStoreError.code]


def test_the_table_in_the_docs_is_the_printed_one(errorlist: ModuleType) -> None:
    assert errorlist.table() in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_corruption_survives_pickling_with_its_place() -> None:
    error = errors.CorruptMessageError(
        "commitlog/00000000000000000000", 4711, "TOTALSIZE", 1024, 413298688
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is errors.CorruptMessageError
    assert (again.path, again.phy_offset, again.field) == (error.path, 4711, "TOTALSIZE")
    assert str(again) == str(error)


def test_the_arguments_of_an_error_are_its_attributes() -> None:
    error = errors.DataLossError("broker", 4, available=None, reason="deleted")
    assert error.args == ("broker", 4, None, "deleted", "")
    assert (error.wanted, error.available, error.queue) == (4, None, "")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)
    damaged = errors.DamagedStreamError("broker", "path", 91, "MAGICCODE", 1, 2, 182)
    again = pickle.loads(pickle.dumps(damaged))
    assert (again.broker, again.phy_offset, again.next_phy_offset) == ("broker", 91, 182)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("request", "field", "expected"), {}),
        (("request", "field", "expected", "found", "more"), {}),
        (("request", "field", "expected", "found"), {"more": 1}),
    ],
)
def test_wrong_arguments_of_an_error_are_a_type_error(
    values: tuple[str, ...], named: dict[str, int]
) -> None:
    with pytest.raises(TypeError, match="RequestError: expected request, field, expected, found"):
        errors.RequestError(*values, **named)  # type: ignore[arg-type]
