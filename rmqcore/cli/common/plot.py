"""Pictures of reports, for ``--plot FILE``: PNG, SVG or PDF by the file's suffix, drawn by matplotlib."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcore.cli.common.output import human_bytes, open_output
from rmqcore.cli.common.shown import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

SUFFIXES = (".png", ".svg", ".pdf")
WIDTH, PANEL_HEIGHT = 10.0, 3.2
"""Inches; a panel is one pair of axes, and panels lie below each other."""
DOTS_PER_INCH = 120
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can distinguish."""
OTHERS_COLOR = "#999999"
MOST_TICKS = 6
MAX_NAME = 40
"""Letters of a stored name that a picture shows."""
MAX_TIME_MS = 221_845_392_000_000
"""The year 9000: a later time comes from damage, and an axis has room beside it in a calendar that ends in 9999."""

_STYLE: dict[Any, object] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "figure.dpi": DOTS_PER_INCH,
    "font.size": 9.0,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",  # names stay text, in any script that the reader's fonts have
    "svg.hashsalt": "rmqcore",
    "text.parse_math": False,  # a $ in a name is a $
}


def plot_file(text: str) -> Path:
    """Parse the value of ``--plot``.

    Raises
    ------
    typer.BadParameter
        The suffix is not of a picture, or the directory is missing.
    """
    path = Path(text)
    if path.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"{text!r} does not end in {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"missing directory {str(path.parent)!r}")
    return path


PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        parser=plot_file,
        help="Also draw a picture to this .png, .svg or .pdf file (needs matplotlib).",
    ),
]


def check_plot(path: Path | None) -> None:
    """Check before the work that the picture can be drawn.

    Raises
    ------
    ModuleNotFoundError
        matplotlib is not installed; `explain` says which extra has it.
    """
    if path is not None:
        import matplotlib as mpl  # noqa: F401


@contextmanager
def picture(path: Path, heights: Sequence[float], title: str = "") -> Iterator[list[Axes]]:
    """Yield panels to draw on, one below the other; at the end of the block they are written to `path`.

    Parameters
    ----------
    path : Path
        Target of the complete picture; its suffix selects the kind.
    heights : sequence of float
        Height of each panel, in multiples of the usual height.
    title : str
        Title above all panels; may hold stored names.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    kind = path.suffix.lower().removeprefix(".")
    with rc_context(_STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Figure(figsize=(WIDTH, PANEL_HEIGHT * sum(heights) + 0.4), layout="constrained")
        grid = figure.subplots(len(heights), squeeze=False, height_ratios=list(heights))
        if title:
            figure.suptitle(shown_name(title, 120), x=0.01, ha="left", fontweight="bold")
        yield list(grid[:, 0])
        metadata = {"Date": None} if kind == "svg" else None  # the same picture has the same bytes
        with open_output(path) as out:
            figure.savefig(out, format=kind, metadata=metadata)


def shown_name(name: str, most: int = MAX_NAME) -> str:
    """Return a stored name for a picture: printable, and cut if it is long."""
    text = printable(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def times(timestamps_ms: Sequence[int]) -> list[datetime]:
    """Return times for an axis, in the local zone, limited to the range from 1970 to `MAX_TIME_MS`."""
    return [
        datetime.fromtimestamp(min(max(int(timestamp_ms), 0), MAX_TIME_MS) / 1000).astimezone()
        for timestamp_ms in timestamps_ms
    ]


def time_axis(axis: Axis) -> None:
    """Format an axis as short times in the local zone."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    zone = datetime.now().astimezone().tzinfo
    locator = AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]


def bytes_axis(axis: Axis, after: str = "") -> None:
    """Format an axis as bytes, for example ``1.5 GiB``, followed by `after`, for example ``/s``."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    class PowersOfTwo(MaxNLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            step = 2.0 ** max(0, math.ceil(math.log2(max(vmax - vmin, 1) / MOST_TICKS)))
            return [step * at for at in range(math.floor(vmin / step), math.ceil(vmax / step) + 1)]

    axis.set_major_locator(PowersOfTwo())
    axis.set_major_formatter(FuncFormatter(lambda value, _: human_bytes(round(value)) + after))


def count_axis(axis: Axis, after: str = "") -> None:
    """Format an axis as counts with commas between thousands."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}{after}"))
