"""Time against size for logs that were made up to cost time, as a picture and as a table.

``python -m bench.hostile_plot docs/img/hostile-logs.svg`` writes the picture and prints the table of
docs/reading-damaged-stores.md, in Markdown.
"""

from __future__ import annotations

import math
import pathlib
import sys

from bench.hostile_benches import SHAPES, SOUND, measure_sizes

SIZES_MIB = (4, 8, 16, 32, 64)

NAMES = {
    "sound, 1 KiB": "sound records of 1 KiB",
    "sound, empty": "sound empty records",
    "to_the_end": "headers every 44 bytes that reach to the end of the file",
    "past_the_window": "headers that reach behind what a reader holds",
    "anywhere": "headers that each reach to a place of their own",
    "bad_bytes": "empty records with a bad byte behind each",
    "one_giant": "damaged headers that all end where one giant begins",
    "lengths_that_disagree": "records, and headers of 2 MiB whose lengths disagree",
    "lies_behind_bad_bytes": "the same behind a bad byte",
    "lies_about_topics": "records, and headers that have their topic a MiB further on",
    "failing_bodies": "records that all fail their CRC",
    "of_another_place": "records of another place",
    "magic_everywhere": "MAGIC, and nothing else",
    "blanks": "BLANKs with a wrong size",
    "sparse": "a record every 2 MiB of hole",
}

DESCRIPTION = (
    "Processor time of cat and info for each shape, both axes logarithmic: the lines rise as the dashed ones, which take twice "
    "the time for twice the bytes."
)

WIDTH, HEIGHT = 1080, 520
LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT, APART = 60, 50, 290, 420, 520
FASTEST_S, SLOWEST_S = 0.003, 10.0
LABEL_PX = 13

STYLE = """
.bg{fill:#ffffff}.g{stroke:#d9d9d9;stroke-width:1}.t{font-weight:600;font-size:14px;fill:#1c1c1c}
.x{font-size:11.5px;fill:#444444}.l{fill:none;stroke:#4a78b5;stroke-width:1.6}.s{stroke:#4d8f4d;stroke-width:2.6}
.e{stroke:#8c8c8c;stroke-dasharray:5 4;stroke-width:1}
@media (prefers-color-scheme:dark){.bg{fill:#161b22}.g{stroke:#30363d}.t{fill:#f2f2f2}.x{fill:#c2c2c2}.l{stroke:#6d9bd6}
.s{stroke:#63a863}.e{stroke:#9a9a9a}}
"""


def x_of(mib: float) -> float:
    share = math.log(mib / SIZES_MIB[0]) / math.log(SIZES_MIB[-1] / SIZES_MIB[0])
    return LEFT + share * PANEL_WIDTH


def y_of(seconds: float) -> float:
    shown = min(max(seconds, FASTEST_S), SLOWEST_S)
    share = math.log(shown / FASTEST_S) / math.log(SLOWEST_S / FASTEST_S)
    return TOP + (1 - share) * PANEL_HEIGHT


def line(kind: str, points: list[tuple[float, float]]) -> str:
    text = " ".join(f"{x_of(mib):.1f},{y_of(seconds):.1f}" for mib, seconds in points)
    return f'<polyline class="{kind}" points="{text}"/>'


def grid(verb: str) -> list[str]:
    """Axes, and what twice the time for twice the bytes looks like."""
    bottom, right = TOP + PANEL_HEIGHT, LEFT + PANEL_WIDTH
    parts = [f'<text class="t" x="{LEFT}" y="{TOP - 20}">{verb}</text>']
    for mib in SIZES_MIB:
        x = x_of(mib)
        parts.append(f'<line class="g" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(
            f'<text class="x" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{mib} MiB</text>'
        )
    for seconds, text in ((0.01, "10 ms"), (0.1, "0.1 s"), (1, "1 s"), (10, "10 s")):
        y = y_of(seconds)
        parts.append(f'<line class="g" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="x" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )
    for begin_s in (0.005, 0.5):
        end_s = begin_s * SIZES_MIB[-1] / SIZES_MIB[0]
        parts.append(line("l e", [(SIZES_MIB[0], begin_s), (SIZES_MIB[-1], end_s)]))
    return parts


def panel(verb: str, took: dict[str, dict[str, list[float]]]) -> list[str]:
    parts = grid(verb)
    # From the slowest down, so that no two names lie on each other.
    low = TOP + PANEL_HEIGHT - LABEL_PX * (len(took) - 1)
    label_y = 0.0
    for number, shape in enumerate(sorted(took, key=lambda name: -took[name][verb][-1])):
        values = took[shape][verb]
        kind = "l s" if shape in SOUND else "l"
        parts.append(line(kind, list(zip(SIZES_MIB, values, strict=True))))
        wanted = min(y_of(values[-1]), low + LABEL_PX * number)
        label_y = max(wanted, label_y + LABEL_PX)
        x = LEFT + PANEL_WIDTH + 6
        parts.append(f'<text class="x" x="{x}" y="{label_y + 4:.1f}">{shape}</text>')
    return parts


def picture(took: dict[str, dict[str, list[float]]]) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    fonts = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc" font-family="{fonts}">',
        '<title id="title">Time against size for logs that were made up to cost time</title>',
        f'<desc id="desc">{DESCRIPTION}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>',
        *panel("cat", took),
        f'<g transform="translate({APART} 0)">',
        *panel("info", took),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def milliseconds(values: list[float]) -> str:
    return ", ".join(f"{value * 1e3:,.0f}" for value in values) + " ms"


def table(took: dict[str, dict[str, list[float]]]) -> str:
    sizes = ", ".join(map(str, SIZES_MIB))
    fewer = ", ".join(map(str, SIZES_MIB[-3:]))
    heads = [
        "A log of",
        f"cat of {sizes} MiB on disk",
        "MiB/s",
        f"info of {SIZES_MIB[-1]} MiB",
        f"fsck of {fewer} MiB",
        f"rebuild of {fewer} MiB",
    ]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for shape, times in took.items():
        speed = SIZES_MIB[-1] / times["cat"][-1]
        shown = f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"
        key = "" if shape in SOUND else f" (`{shape}`)"
        cells = [
            f"{NAMES[shape]}{key}",
            milliseconds(times["cat"]),
            shown,
            milliseconds(times["info"][-1:]),
            *(
                milliseconds(times[verb][-3:]) if verb in times else ""
                for verb in ("fsck", "rebuild")
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(out: pathlib.Path) -> None:
    took = {shape: measure_sizes(shape, SIZES_MIB) for shape in SHAPES}
    out.write_text(picture(took))
    print(table(took))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
