"""Draws docs/img/architecture.svg from the layer contracts and the packages' first lines: python scripts/architecture.py."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "img" / "architecture.svg"
LAYERS_OF_NATIVE = ROOT / "tests" / "unit" / "test_layers.py"

WIDTH, MARGIN, GAP = 1000, 16, 10
PAD = 9
TITLE, TEXT, CHIP = 14.0, 12.0, 11.5
"""Sizes of letters in pixels."""
LINE = 15
CHIP_HEIGHT = 18
NARROW, BROAD = "fijlrt .,:;·/'()", "mwMW_"
ARROW = 14

STYLE = """
.bg{fill:#ffffff}.program{fill:#fdf0d5;stroke:#b98a2e}.store{fill:#e4eefb;stroke:#4a78b5}
.words{fill:#f4e8f8;stroke:#8f5ca5}.native{fill:#e6f4e6;stroke:#4d8f4d}.chip{fill:#ffffff;fill-opacity:.75;stroke:#8a8a8a;stroke-width:.6}
.t{font-weight:600;font-size:14px;fill:#1c1c1c}.s{font-size:12px;fill:#303030}.c{font-size:11.5px;fill:#303030}.m{font-size:12px;fill:#4d4d4d}
@media (prefers-color-scheme:dark){.bg{fill:#161b22}.program{fill:#3d3115;stroke:#c79b44}.store{fill:#1b2f48;stroke:#6d9bd6}
.words{fill:#38233f;stroke:#b183c6}.native{fill:#17331b;stroke:#63a863}.chip{fill:#000000;fill-opacity:.25;stroke:#9a9a9a}
.t{fill:#f2f2f2}.s,.c{fill:#dcdcdc}.m{fill:#c2c2c2}}
"""


@dataclass
class Box:
    """A package: its name, what it is, and its rooms from those that import to those that are imported."""

    name: str
    says: str
    rooms: list[list[str]] = field(default_factory=list)
    colour: str = "store"


def contracts() -> list[dict[str, Any]]:
    """The contracts of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def names_in(layer: str) -> list[str]:
    """The modules of one row of a contract, which may have parentheses around optional ones."""
    return [name.strip(" ()") for name in layer.split("|")]


def place_of(module: str) -> Path:
    """The file with the docstring of a module or package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def first_line(module: str) -> str:
    """The first line of a module's docstring, without marks."""
    text = ast.get_docstring(ast.parse(place_of(module).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("`", "")


def shown_name(module: str) -> str:
    """A module as its path: a package with a slash behind it."""
    path = module.replace(".", "/")
    return f"{path}/" if (ROOT / path).is_dir() else f"{path}.py"


def rooms_of(module: str) -> list[list[str]]:
    """The rows of the contract about the rooms of a package; empty without such a contract."""
    for contract in contracts():
        if contract.get("containers") == [module]:
            return [
                [shown_room(module, name) for name in names_in(layer)]
                for layer in contract["layers"]
            ]
    return []


def shown_room(package: str, name: str) -> str:
    """A room of a package: a folder with a slash behind it."""
    return f"{name}/" if place_of(f"{package}.{name}").name == "__init__.py" else name


def floors() -> list[list[Box]]:
    """The rows of the contract for the whole tree, then those of the extensions and the kernels."""
    whole = next(one for one in contracts() if one["type"] == "layers" and "containers" not in one)
    rows = [names_in(layer) for layer in whole["layers"]]
    opening = next(place for place, row in enumerate(rows) if "rmqcore.opening" in row)
    words = next(place for place, row in enumerate(rows) if "rmqcore.shown" in row)
    boxes = []
    for place, row in enumerate(rows):
        colour = "program" if place < opening else "store" if place < words else "words"
        boxes.append(
            [Box(shown_name(name), first_line(name), rooms_of(name), colour) for name in row]
        )
    native = [
        Box(
            "src/rmqcore/_native/*.pyx",
            first_line("rmqcore._native"),
            levels("EXTENSIONS_BELOW"),
            "native",
        ),
        Box(
            "src/rmqcore/_native/*.c",
            "C without Python, compiled once into a library that the extensions link.",
            levels("ROOMS_BELOW"),
            "native",
        ),
    ]
    return [*boxes, *([box] for box in native)]


def levels(table: str) -> list[list[str]]:
    """The rooms of a table of tests/unit/test_layers.py, each above those that it may import."""
    below: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(LAYERS_OF_NATIVE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == table:
            below = ast.literal_eval(node.value)

    def height(room: str) -> int:
        return 1 + max((height(other) for other in below[room]), default=0)

    by_height: dict[int, list[str]] = {}
    for room in sorted(below):
        by_height.setdefault(height(room), []).append(f"{room}/")
    return [by_height[place] for place in sorted(by_height, reverse=True)]


def width_of(words: str, size: float) -> float:
    """The width of a text in the widest of the fonts that browsers have."""
    letters = (0.4 if one in NARROW else 0.95 if one in BROAD else 0.63 for one in words)
    return size * sum(letters)


def wrapped(words: Iterable[str], room: float, size: float) -> list[str]:
    """Words as lines that fit a width."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def chip(rooms: list[str], width: float) -> tuple[float, list[str]]:
    """The width of one row of rooms, and its lines."""
    lines = wrapped(" · ".join(rooms).replace(" · ", " ·\0").split("\0"), width - 10, CHIP)
    return min(width, max(width_of(line, CHIP) for line in lines) + 10), lines


def text(x: float, y: float, kind: str, words: str) -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def drawn(box: Box, x: float, width: float, y: float) -> tuple[float, list[str]]:
    """The inside of a box, and its height."""
    inner = width - 2 * PAD
    parts = [text(x + PAD, y + 19, "t", box.name)]
    at = y + 26
    for line in wrapped(box.says.split(), inner, TEXT):
        at += LINE
        parts.append(text(x + PAD, at - 4, "s", line))
    across, down, row = 0.0, at + 4, 0.0
    for number, rooms in enumerate(box.rooms):
        wide, lines = chip(rooms, inner - ARROW)
        tall = CHIP_HEIGHT + (len(lines) - 1) * (LINE - 1)
        if across + ARROW + wide > inner and number:
            down += row + 4
            across, row = 0.0, 0.0
        if number:
            parts.append(text(x + PAD + across + 4, down + 13, "m", "→"))
            across += ARROW
        left = x + PAD + across
        parts.append(
            f'<rect x="{left:g}" y="{down:g}" width="{wide:.4g}" height="{tall}" rx="4" class="chip"/>'
        )
        parts += [
            text(left + 5, down + 13 + place * (LINE - 1), "c", line)
            for place, line in enumerate(lines)
        ]
        across += wide
        row = max(row, tall)
    bottom = down + row + PAD if box.rooms else at + PAD - 3
    return bottom - y, parts


def widths_of(row: list[Box]) -> list[float]:
    """The widths of the boxes of a floor: the more a box says, the wider."""
    said = [
        150 + len(box.says) + sum(len(room) for rooms in box.rooms for room in rooms) for box in row
    ]
    room = WIDTH - 2 * MARGIN - (len(row) - 1) * GAP
    return [round(room * share / sum(said)) for share in said]


def picture() -> str:
    """The picture as SVG."""
    rows = floors()
    parts = [text(MARGIN, 22, "m", "Imports go down, and inside a box from left to right (→).")]
    y = 32.0
    for row in rows:
        widths = widths_of(row)
        places = [MARGIN + sum(widths[:place]) + place * GAP for place in range(len(row))]
        inside = [drawn(*one, y) for one in zip(row, places, widths, strict=True)]
        tall = max(height for height, _ in inside)
        for box, x, width, (_, lines) in zip(row, places, widths, inside, strict=True):
            parts.append(
                f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{tall:g}" rx="6" class="{box.colour}"/>'
            )
            parts += lines
        y += tall + GAP
    parts.append(text(MARGIN, y + 14, "t", "Beside the floors"))
    y += 16
    for contract in contracts():
        if contract["type"] != "layers":
            y += LINE + 1
            parts.append(text(MARGIN, y, "s", f"• {contract['name']}."))
    height = y + MARGIN
    says = "; ".join(", ".join(box.name for box in row) for row in rows)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" '
        'aria-labelledby="title desc" font-family="system-ui,-apple-system,\'Segoe UI\',Helvetica,Arial,sans-serif">'
    )
    return "\n".join(
        [
            head,
            '<title id="title">The floors and rooms of rmqcore</title>',
            f'<desc id="desc">From the top, each floor importing only from those below it: {escape(says)}.</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="bg" width="{WIDTH}" height="{height:g}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
