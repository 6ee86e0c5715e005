"""A Java bench in a process of its own, to which each step is a line."""

from __future__ import annotations

import pathlib
import subprocess


class JavaSteps:
    """Started with a command; each step is one line to its stdin and one line back."""

    def __init__(self, command: list[str | pathlib.Path]) -> None:
        words = [str(word) for word in command]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *step: object) -> list[str]:
        """Do a step; give the words of its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, step)) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
