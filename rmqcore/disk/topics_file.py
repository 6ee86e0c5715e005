"""Topics in ``config/topics.json``, and the kind of their queues."""

from __future__ import annotations

from rmqcore.disk.config_files import read_config_file
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError

TOPICS_FILE = "config/topics.json"


def configured_topics(paths: StorePaths) -> frozenset[str]:
    """Topics that a broker knows, also without a message; a file that cannot be read names none."""
    return frozenset(_table(paths))


def configured_queues(paths: StorePaths, topic: str) -> int:
    """Return how many queues a broker gave a topic; 0 for a topic that it does not know."""
    config = _table(paths).get(topic)
    counts = (
        [config.get(name) for name in ("readQueueNums", "writeQueueNums")]
        if isinstance(config, dict)
        else []
    )
    return max((count for count in counts if isinstance(count, int)), default=0)


def configured_batch_topics(paths: StorePaths) -> frozenset[str]:
    """Return the topics with ``queue.type=BatchCQ``; none if the file cannot be read, which `doctor` reports."""
    return frozenset(
        topic
        for topic, config in _table(paths).items()
        if _has_attribute(config, "queue.type", "BatchCQ")
    )


def configured_compaction(paths: StorePaths) -> dict[str, bool]:
    """Return for each topic that a broker knows if it is compacted (``cleanup.policy=COMPACTION``); as `configured_topics`."""
    return {
        topic: _has_attribute(config, "cleanup.policy", "COMPACTION")
        for topic, config in _table(paths).items()
    }


def _table(paths: StorePaths) -> dict[str, object]:
    try:
        saved = read_config_file(paths, TOPICS_FILE)
    except (StoreError, OSError, ValueError):
        return {}
    table = {} if saved is None else saved.get("topicConfigTable")
    return table if isinstance(table, dict) else {}


def _has_attribute(config: object, name: str, value: str) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get(name) == value
