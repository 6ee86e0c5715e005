"""Tag expressions of a consumer."""

from __future__ import annotations

from rmqcore._native.queues.tag_filter import LAST_EXT_ADDRESS, TagFilter

__all__ = ["ALL_TAGS", "LAST_EXT_ADDRESS", "TagFilter"]

ALL_TAGS = TagFilter()
"""Matches every message."""
