"""The picture of `bench.latency_plot`: latency against percentile, in the shape of HdrHistogram's plots, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable

Line = Callable[[float], float]
"""From a percentile to nanoseconds."""

WIDTH, HEIGHT = 1080, 800
LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT = 70, 96, 430, 300
ACROSS, DOWN = 510, 350
LEAST_NS, MOST_NS = 100.0, 1e8
TICKS = ((50.0, "50 %"), (90.0, "90 %"), (99.0, "99 %"), (99.9, "99.9 %"), (99.99, "99.99 %"))
DECADES = ("100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s")
# Percentiles are drawn by the number of their nines; the worst call is one step behind 99.99 %.
FIRST_NINES, LAST_NINES, WORST_AT = math.log10(2), 4.0, 5.0
POINTS = 120
KINDS = {"rmqcore": "a", "Java": "b", "plain write": "c", "nothing": "d"}
LEGEND = {
    "rmqcore": "put of a message of 1 KiB",
    "Java": "the same by Java's store",
    "plain write": "a plain write of as many bytes",
    "nothing": "a call that does nothing",
}
DESCRIPTION = (
    "Four panels, puts at a steady pace and one after the other, each in the first ten seconds of a store and in the tenth file "
    "of its log: what calls took, from the median over 99.99 percent to the worst, both axes logarithmic."
)

STYLE = """
.bg{fill:#ffffff}.g{stroke:#d9d9d9;stroke-width:1}.t{font-weight:600;font-size:14px;fill:#1c1c1c}
.x{font-size:11.5px;fill:#444444}.l{fill:none;stroke-width:2;stroke-linejoin:round}.a{stroke:#4a78b5;stroke-width:2.8}
.b{stroke:#c0662f}.c{stroke:#4d8f4d}.d{stroke:#8c8c8c;stroke-dasharray:5 4;stroke-width:1.4}
@media (prefers-color-scheme:dark){.bg{fill:#161b22}.g{stroke:#30363d}.t{fill:#f2f2f2}.x{fill:#c2c2c2}.a{stroke:#6d9bd6}
.b{stroke:#e08a50}.c{stroke:#63a863}.d{stroke:#9a9a9a}}
"""


def x_of(nines: float) -> float:
    return LEFT + (nines - FIRST_NINES) / (WORST_AT - FIRST_NINES) * PANEL_WIDTH


class Heights:
    """Where a time lies in a panel: as many decades as the slowest call needs."""

    def __init__(self, slowest_ns: float) -> None:
        self.most_ns = max(MOST_NS, 10.0 ** math.ceil(math.log10(slowest_ns)))
        self.decades = round(math.log10(self.most_ns / LEAST_NS))

    def y_of(self, nanos: float) -> float:
        shown = max(nanos, LEAST_NS)
        return TOP + (1 - math.log10(shown / LEAST_NS) / self.decades) * PANEL_HEIGHT


def grid(title: str, heights: Heights) -> list[str]:
    bottom, right = TOP + PANEL_HEIGHT, LEFT + PANEL_WIDTH
    parts = [f'<text class="t" x="{LEFT}" y="{TOP - 10}">{title}</text>']
    ticks = [(-math.log10(1 - value / 100), name) for value, name in TICKS]
    for nines, name in [*ticks, (WORST_AT, "worst")]:
        x = x_of(nines)
        parts.append(f'<line class="g" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(
            f'<text class="x" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{name}</text>'
        )
    for decade in range(heights.decades + 1):
        y = heights.y_of(LEAST_NS * 10**decade)
        parts.append(f'<line class="g" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="x" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{DECADES[decade]}</text>'
        )
    return parts


def curve(side: str, line: Line, heights: Heights) -> str:
    steps = [FIRST_NINES + (LAST_NINES - FIRST_NINES) * step / POINTS for step in range(POINTS + 1)]
    points = [(x_of(nines), heights.y_of(line(100 - 10 ** (2 - nines)))) for nines in steps]
    points.append((x_of(WORST_AT), heights.y_of(line(100.0))))
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="l {KINDS[side]}" points="{text}"/>'


def legend() -> list[str]:
    parts = []
    for number, (side, text) in enumerate(LEGEND.items()):
        x = LEFT + number * 240
        parts.append(f'<polyline class="l {KINDS[side]}" points="{x},38 {x + 30},38"/>')
        parts.append(f'<text class="x" x="{x + 38}" y="42">{text}</text>')
    return parts


def picture(titles: list[str], lines: dict[tuple[str, str], Line]) -> str:
    """A panel for each title, with a line for each side; two panels in a row."""
    heights = Heights(max(line(100.0) for line in lines.values()))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    fonts = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc" font-family="{fonts}">',
        '<title id="title">What a put takes, from the median to the worst</title>',
        f'<desc id="desc">{DESCRIPTION}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>',
        *legend(),
    ]
    for number, title in enumerate(titles):
        parts.append(f'<g transform="translate({number % 2 * ACROSS} {number // 2 * DOWN})">')
        parts += grid(title, heights)
        parts += [
            curve(side, lines[title, side], heights) for side in KINDS if (title, side) in lines
        ]
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"
