"""Kinds of the topics' queues in ``config/topics.json``."""

from __future__ import annotations

from rmqcore.disk.config_files import read_config_file
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError

TOPICS_FILE = "config/topics.json"


def configured_batch_topics(paths: StorePaths) -> frozenset[str]:
    """Return the topics with ``queue.type=BatchCQ``; none if the file cannot be read, which `doctor` reports."""
    try:
        saved = read_config_file(paths, TOPICS_FILE)
    except (StoreError, OSError, ValueError):
        return frozenset()
    table = {} if saved is None else saved.get("topicConfigTable")
    if not isinstance(table, dict):
        return frozenset()
    return frozenset(topic for topic, config in table.items() if _is_batch(config))


def _is_batch(config: object) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get("queue.type") == "BatchCQ"
