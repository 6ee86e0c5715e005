"""Texts by namespace and key, which operators put and brokers and clients ask for.

Source: RocketMQ 5.5.0 KVConfigManager.
"""

from __future__ import annotations

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the texts that say which queues of ordered topics are where."""


class KvConfig:
    """The texts. Not thread-safe."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, str]] = {}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Put a text; one that is there already is replaced."""
        self._namespaces.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """Give a text; None where there is none."""
        return self._namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Delete a text, if it is there; its namespace stays, if an empty one."""
        self._namespaces.get(namespace, {}).pop(key, None)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Give all texts of a namespace; None where nothing was ever put there."""
        found = self._namespaces.get(namespace)
        return None if found is None else dict(found)
