"""`Message`, the input of a store; its output is `MessageView`."""

from __future__ import annotations

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.ids import pack_host
from rmqcore._native.put.message import Message

__all__ = ["Message", "MessageView", "pack_host"]
