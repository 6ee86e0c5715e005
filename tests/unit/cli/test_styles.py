"""Every style can be read on a white background and on a black one.

Warnings were yellow, notes cyan, heads of columns and hints dim: on white paper there was nothing to see of them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from rich.errors import StyleSyntaxError
from rich.style import Style
from support.cli.one_process import each_in_terminal
from support.places import ROOT

from rmqcore.cli.common import styles

PALETTES = {
    "xterm": {"red": "cd0000", "green": "00cd00", "magenta": "cd00cd", "yellow": "cdcd00", "cyan": "00cdcd", "blue": "0000ee"},
    "Linux": {"red": "aa0000", "green": "00aa00", "magenta": "aa00aa", "yellow": "aa5500", "cyan": "00aaaa", "blue": "0000aa"},
    "Windows": {"red": "c50f1f", "green": "13a10e", "magenta": "881798", "yellow": "c19c00", "cyan": "3a96dd", "blue": "0037da"},
    "macOS": {"red": "990000", "green": "00a600", "magenta": "b200b2", "yellow": "999900", "cyan": "00a6b2", "blue": "0000b2"},
    "Tango": {"red": "cc0000", "green": "4e9a06", "magenta": "75507b", "yellow": "c4a000", "cyan": "06989a", "blue": "3465a4"},
}  # fmt: skip
"""What terminals show for the colours that are used, and for those that are not, for they fail here."""
LEAST_CONTRAST = 2.1
USED = {
    **{name: value for name, value in vars(styles).items() if isinstance(value, str) and name.isupper()},
    **styles.OF_RICH,
}  # fmt: skip
CODES = {"0", "1", "4", "31", "32", "35", ""}
"""Of SGR sequences: reset, bold, underline, red, green, magenta."""
FILES = sorted((ROOT / "rmqcore" / "cli").rglob("*.py"))


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]  # fmt: skip
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def least_contrast(color: str) -> float:
    """With white and with black, in all palettes; as WCAG has it."""
    rgb = Style.parse(color).color
    assert rgb is not None
    shown = [palette[color] for palette in PALETTES.values() if color in palette]
    shown = shown or ["".join(f"{part:02x}" for part in rgb.get_truecolor())]
    return min(min(1.05 / (luminance(one) + 0.05), (luminance(one) + 0.05) / 0.05) for one in shown)


@pytest.mark.parametrize("name", sorted(USED))
def test_it_is_seen_on_white_and_on_black(name: str) -> None:
    style = Style.parse(USED[name])
    assert not style.dim and not style.blink and style.bgcolor is None
    if style.color is not None:
        assert least_contrast(style.color.name) > LEAST_CONTRAST


@pytest.mark.parametrize("color", ["yellow", "cyan", "blue", "grey23", "white", "black"])
def test_these_are_not(color: str) -> None:
    assert least_contrast(color) <= LEAST_CONTRAST


def is_style(text: str) -> bool:
    try:
        return len(text) > 2 and Style.parse(text) != Style.null() and "link" not in text
    except StyleSyntaxError:
        return False


def test_styles_are_in_one_place() -> None:
    """But for those of pictures (Matplotlib), and for words that are no style where they stand."""
    assert len(FILES) > 20
    found = [
        (file.relative_to(ROOT).as_posix(), node.lineno, node.value)
        for file in FILES
        if file.name not in ("styles.py", "plot.py")
        and not file.stem.endswith(("_plot", "_picture"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_style(node.value)
    ]
    assert found == []


SEEN = """
    --help; cat --help; info STORE; fsck STORE; fsck DAMAGED; doctor DAMAGED; stats STORE; retention STORE; recover DAMAGED;
    diff STORE DAMAGED; top DAMAGED --once --interval 0.1; cat DAMAGED; salvage DAMAGED OUT/salvaged; backup STORE OUT/copy;
    cat STORE --frob; cat STORE --topic Typo
"""


def test_what_a_terminal_gets(golden: Path, tmp_path: Path) -> None:
    """Rich's own styles, too: of progress bars, tables and help."""
    given = SEEN.replace("STORE", str(golden / "basic" / "store"))
    given = given.replace("DAMAGED", str(golden / "crash_flipped" / "input"))
    runs = [words.split() for words in given.replace("OUT", str(tmp_path)).split(";")]
    variables = {"TERM": "xterm-256color", "COLUMNS": "100"}
    found = each_in_terminal(*((words, variables) for words in runs))
    for words, (_, text) in zip(runs, found, strict=True):
        is_in_our_styles(words, text)
    plain = [words for words, (_, text) in zip(runs, found, strict=True) if "\x1b[" not in text]
    assert len(plain) < len(runs) // 2, f"without any style: {plain}"


def is_in_our_styles(words: list[str], text: str) -> None:
    colors = re.findall(r"\x1b\[([0-9;]*)m", text)
    plain = [re.sub(r"38;5;\d+|38;2;\d+;\d+;\d+", "", found) for found in colors]
    assert {code for found in plain for code in found.split(";")} <= CODES, words
    assert set(re.findall(r"38;[25];[0-9;]*\d", text)) <= {"38;5;244"}, words  # grey50, of bars
