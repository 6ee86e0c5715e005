"""Prints the table of errors for docs/cli.md: python scripts/errorlist.py. Exit code 1 when two errors share a code."""

from __future__ import annotations

import inspect
import sys
from collections import Counter

from rmqcore import errors
from rmqcore.errors import jobs, network, replication, stores


def error_classes() -> list[type[errors.StoreError]]:
    """The classes of all errors of the package, file by file of `rmqcore/errors/` in its order."""
    found = [
        value
        for module in (stores, jobs, network, replication)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, errors.StoreError)
    ]
    return list(dict.fromkeys(found))


def shared_codes() -> list[str]:
    """Codes that two or more classes have."""
    return [
        code
        for code, count in Counter(error.code for error in error_classes()).items()
        if count > 1
    ]


def table() -> str:
    """The errors as a Markdown table."""
    rows = ["| code | class | exit code | meaning | what to do |", "|---|---|---|---|---|"]
    for error in error_classes():
        meaning = (inspect.getdoc(error) or "").splitlines()[0]
        rows.append(
            f"| `{error.code}` | `{error.__name__}` | {error.exit_code} | {meaning} | {error.hint} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    if shared := shared_codes():
        sys.exit(f"errorlist: more than one error has the code {', '.join(shared)}")
    print(table())
