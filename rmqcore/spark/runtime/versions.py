"""Abilities of the installed PySpark, and its required packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from rmqcore.errors import SparkMissingError

_INSTALL = "pip install 'rmqcore[{}]'"

# The first PySpark version of a line -> the oldest pyarrow and the oldest pandas that it supports.
_FLOORS = (
    ((4, 2), "18.0", "2.2"),
    ((4, 1), "15.0", "2.2"),
    ((4, 0), "11.0", "2.0"),
    ((3, 5), "4.0", "1.0.5"),
)

DATA_SOURCE = (4, 0)
"""The first PySpark with the Python Data Source API."""
PUSH_FILTERS = (4, 1)
"""The first PySpark that passes filters to a data source."""
MAP_IN_ARROW = (3, 5)
"""The first PySpark that `rmqcore.spark.read_with_map` works with."""


def pyspark_version() -> tuple[int, int]:
    """Return major and minor version of the installed PySpark.

    Raises
    ------
    SparkMissingError
        PySpark is not installed.
    """
    return _numbers(_version("pyspark"))


def check_versions(at_least: tuple[int, int] = DATA_SOURCE) -> tuple[int, int]:
    """Return the version of PySpark, if PySpark, pyarrow and pandas are installed and new enough.

    Raises
    ------
    SparkMissingError
        A package is missing or too old; the message names the feature that needs a newer version.
    """
    found = pyspark_version()
    text = ".".join(map(str, found))
    if found < at_least:
        older = "; with 3.5, use rmqcore.spark.read_with_map" if found >= MAP_IN_ARROW else ""
        raise SparkMissingError(
            f"PySpark {text} is installed, {'.'.join(map(str, at_least))} or later is needed{older}"
        )
    pyarrow, pandas = next(floors for since, *floors in _FLOORS if found >= since)
    for package, floor in (("pyarrow", pyarrow), ("pandas", pandas)):
        have = _version(package)
        if _numbers(have) < _numbers(floor):
            raise SparkMissingError(
                f"{package} {have} is installed, PySpark {text} needs {floor} or later: {_INSTALL.format('spark')}"
            )
    return found


def check_package(package: str, extra: str) -> None:
    """Check that the package of an extra is installed.

    Raises
    ------
    SparkMissingError
        The package is missing; the message says how to install it.
    """
    _version(package, extra)


def _version(package: str, extra: str = "spark") -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        error = SparkMissingError(f"{package} is not installed: {_INSTALL.format(extra)}")
        error.hint = _INSTALL.format(extra)
        raise error from None


def _numbers(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
