"""The pages of the documentation as tests read them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from support.places import ROOT

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the line of its fence, its language, its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line behind a prompt, and the lines of output that the page shows of it."""

    line: str
    output: str

    @property
    def words(self) -> list[str]:
        """What a shell makes of it, without its comment."""
        return shlex.split(self.line, comments=True)


def fenced_blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, also those in a list."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        indent, language, lines = match.groups()
        body = "".join(line.removeprefix(indent) for line in lines.splitlines(keepends=True))
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, language, body))
    fences = sum(line.lstrip().startswith("```") for line in text.splitlines())
    assert fences == 2 * len(found), f"{page}: {fences} fences, {len(found)} blocks"
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block of a terminal, each with what is shown below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0], f"{block}: a terminal begins with a prompt"
    return [Command(line, output) for line, _, output in (p.partition("\n") for p in parts[1:])]
