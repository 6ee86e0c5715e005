"""The printing of the version."""

from __future__ import annotations

import sys

import rmqcore


def print_version() -> None:
    """Print the version on stdout."""
    sys.stdout.write(f"rmqcore {rmqcore.__version__}\n")
