"""All styles for the terminal: readable on a white background and on a black one.

Yellow and cyan vanish on white, blue on black, and dim text on either. Words always carry the meaning of a colour too.
"""

from __future__ import annotations

HEAD = "bold"
"""Names of facts, titles, and text to type."""
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
"""Replacements for Rich's own styles."""
