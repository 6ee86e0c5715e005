"""Texts by namespace and key, which operators put, and which brokers and clients read.

Source: RocketMQ 5.5.0 KVConfigManager.
"""

from __future__ import annotations

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the texts that say which queues of ordered topics are where."""

_ENTRY_BYTES = 100
"""Counted for each text and each namespace besides: empty ones take memory too."""


class KvConfigFullError(ValueError):
    """The table has no room for another text."""


class KvConfig:
    """The texts. Not thread-safe.

    Parameters
    ----------
    most_bytes : int
        UTF-8 bytes of all namespaces, keys and texts. Java has no bound.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._namespaces: dict[str, dict[str, str]] = {}
        self._size = 0

    def put(self, namespace: str, key: str, value: str) -> None:
        """Put a text, or replace the present one.

        Raises
        ------
        KvConfigFullError
            All texts together would exceed `most_bytes`. Nothing is changed.
        """
        texts = self._namespaces.get(namespace, {})
        more = _size(key, value) - (_size(key, texts[key]) if key in texts else 0)
        if namespace not in self._namespaces:
            more += _size(namespace)
        if more > 0 and self._size + more > self._most_bytes:
            raise KvConfigFullError(
                f"the KV config is full, its limit is {self._most_bytes:,} bytes (maxKvConfigBytes)"
            )
        self._size += more
        self._namespaces.setdefault(namespace, texts)[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """Return a text; None if it is missing."""
        return self._namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Delete a text if it exists; its namespace stays, even if empty."""
        value = self._namespaces.get(namespace, {}).pop(key, None)
        if value is not None:
            self._size -= _size(key, value)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all texts of a namespace; None if no text was ever put into it."""
        found = self._namespaces.get(namespace)
        return None if found is None else dict(found)


def _size(*texts: str) -> int:
    return _ENTRY_BYTES + sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
