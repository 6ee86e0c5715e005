"""The command line: ``rmqcore VERB STORE ...``, one file per verb in `verbs` and `spark`, shared parts in `common`.

Importing this package loads neither Typer nor rich; `main` loads them, and names the package to install if they are
missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rmqcore.cli.common.version import print_version
from rmqcore.errors.exit_codes import INTERRUPTED

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the program's name; None: ``sys.argv[1:]``.
    """
    try:
        return _main(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # before the verb began: modules are being loaded
        return INTERRUPTED


def _main(words: list[str]) -> int:
    if words == ["--version"]:
        print_version()
        return 0
    try:
        import rich  # noqa: F401  (only to see whether it is there)
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"Error: the rmqcore command needs {error.name}, which is not installed\n"
            "Hint: pip install 'rmqcore[cli]'\n"
        )
        return 1
    from rmqcore.cli.app import run

    return run(words)
