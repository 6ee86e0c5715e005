"""Apache RocketMQ's storage engine for Python."""

from rmqcore import codec
from rmqcore.message import Message, MessageView

__all__ = ["Message", "MessageView", "codec"]
__version__ = "0.1.0"
