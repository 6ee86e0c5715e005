"""Exit codes of this package's commands."""

from __future__ import annotations

OK = 0
FAILED = 1
DAMAGED = 2
"""Also: something is partial, lost, or differs."""
USAGE = 64
"""EX_USAGE of sysexits.h."""
INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as a shell reports for any command that this signal ends."""
