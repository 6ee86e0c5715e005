"""A message for people: each value on a line."""

from __future__ import annotations

from rmqcore.cli.common.bodies import Bodies
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.codec.message import MessageView
from rmqcore.offline.export.message_rows import FIELDS

HEXADECIMAL = {"magic", "body_crc", "sys_flag"}
"""Bit fields, which are shown in hexadecimal."""


def message_card(view: MessageView, bodies: Bodies) -> str:
    """Format the values of a message by name, with times and bit fields also in a readable form, and the body last."""
    lines = []
    for name in FIELDS:
        if name == "body":
            continue
        value = getattr(view, name)
        if name == "properties":
            lines.append(name)
            lines += [f"  {printable(key)} = {printable(text)}" for key, text in value.items()]
            continue
        if name.endswith("_ms"):
            value = f"{value} ({format_time(value)})"
        elif name in HEXADECIMAL:
            value = f"{value} ({value & 0xFFFFFFFF:#x})"
        elif name == "keys":
            value = " ".join(value)
        text = "-" if value is None or value == "" else printable(str(value))
        lines.append(f"{name:<28}{text}")
    if bodies.shown:
        shown = bodies.text(view) or ""
        lines.append(f"body ({len(view.body)} bytes stored)")
        lines += [f"  {printable(line)}" for line in shown.splitlines()]
    return "\n".join(lines) + "\n"
