"""Styles of a terminal, all of them: they can be read on a white background and on a black one.

Yellow and cyan vanish on white, blue on black, and what is dim on either. A colour says nothing that no word says.
"""

from __future__ import annotations

HEAD = "bold"
"""Names of facts, titles, and what is to be typed."""
COLUMN_HEADS = "underline"
BAD = "bold red"
DOUBTFUL = "bold magenta"
GOOD = "bold green"
PICTURE = "green"

OF_RICH = {
    "bar.back": "grey50",
    "bar.complete": "magenta",
    "bar.finished": "green",
    "bar.pulse": "magenta",
    "progress.data.speed": "none",
    "progress.download": "none",
    "progress.elapsed": "none",
    "progress.remaining": "none",
}
"""In the place of Rich's own styles."""
