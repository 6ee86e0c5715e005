"""Messages as lines of JSON and rows of CSV, against the same with Python's own json and csv: what `cat` and `export` write.

The rows compare CPU time of the thread: the quickest of several rounds, which take turns. Each round has views that nobody asked.
"""

from __future__ import annotations

import base64
import csv
import io
import sys
import time
from collections.abc import Callable

from bench import build
from bench.report import Row

sys.path.insert(0, str(build.ROOT / "tests"))

from support.oracle import message_rows as plain_rows

from rmqcore import Message, codec
from rmqcore.codec.message import MessageView
from rmqcore.offline.export.message_rows import body_encoder, csv_encoder, json_encoder

LINES_OVER_PYTHON = 3.0
RECORDS = 5_000
ROUNDS = 15

Job = Callable[[list[MessageView]], object]


def _log() -> list[bytes]:
    """As a client sends them: 128 bytes of body, a tag, a key."""
    return [
        codec.encode(
            Message(
                "BenchTopic",
                bytes((number + at) % 256 for at in range(128)),
                number % 4,
                tags=f"Tag{number % 8}",
                keys=(f"K{number}",),
                properties={"UNIQ_KEY": f"{number:032X}", "WAIT": "true"},
            ),
            phy_offset=300 * number,
            queue_offset=number // 4,
            store_timestamp_ms=1_700_000_000_000 + number,
        )
        for number in range(RECORDS)
    ]


def _encoded(body: str) -> Callable[[MessageView], str | None]:
    """A body as Python alone makes a text of it."""
    if body == "none":
        return lambda view: None
    return lambda view: base64.b64encode(view.body).decode("ascii")


def _ways(kind: str, body: str) -> tuple[Job, Job]:
    """Python's way, and the package's."""
    text, shown = _encoded(body), body_encoder("none" if body == "none" else "base64")
    if kind == "JSON":
        encode = json_encoder(shown)
        return (
            lambda views: [plain_rows.json_line(view, text(view)) for view in views],
            lambda views: [encode(view) for view in views],
        )

    def written(views: list[MessageView]) -> bytes:
        out = io.StringIO()
        row = csv.writer(out, lineterminator="\n").writerow
        for view in views:
            row(plain_rows.csv_row(view, text(view)))
        return out.getvalue().encode("utf-8", "replace")

    encode_row = csv_encoder(shown)
    return written, lambda views: [encode_row(view) for view in views]


def rows() -> list[Row]:
    log = _log()
    found = []
    for kind in ("JSON", "CSV"):
        for body in ("none", "base64"):
            ways = _ways(kind, body)
            best = [float("inf")] * 2
            for _ in range(ROUNDS):
                for number, way in enumerate(ways):
                    views = [codec.decode(record) for record in log]
                    began = time.thread_time()
                    way(views)
                    best[number] = min(best[number], time.thread_time() - began)
            python, ours = (seconds / RECORDS * 1e9 for seconds in best)
            measured = f"{ours:.0f} ns a message, Python {python:.0f} ns"
            found.append(
                Row(
                    "rows / Python",
                    f"{kind}, body {body}",
                    measured,
                    python / ours,
                    LINES_OVER_PYTHON,
                )
            )
    return found
