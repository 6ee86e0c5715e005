"""Tag expressions of a consumer, and the limits of a get that no configuration moves."""

from __future__ import annotations

from rmqcore._native.queues.get import LAST_EXT_ADDRESS, LEAST_BYTES, MAX_BYTES, TagFilter

__all__ = ["ALL_TAGS", "LAST_EXT_ADDRESS", "LEAST_BYTES", "MAX_BYTES", "TagFilter"]

ALL_TAGS = TagFilter()
"""Matches every message."""
