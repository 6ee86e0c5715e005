"""The long-lived threads of a store: each repeats one step of `rmqcore.engine`, which has no thread of its own."""

from rmqcore.services.services import Services

__all__ = ["Services"]
