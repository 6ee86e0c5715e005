"""``rmqcore spark topic-stats``: messages, bytes, rates, tags and latency by topic and hour."""

from __future__ import annotations

from rmqcore.cli import filters
from rmqcore.cli.errors import OK
from rmqcore.cli.spark_rows import plain_rows, show_rows
from rmqcore.cli.spark_session import (
    Conf,
    Log,
    Master,
    SourceOption,
    Stores,
    source_options,
    spark_session,
)

SHOWN = (
    "topic", "hour", "messages", "bytes", "messages_per_second", "distinct_tags", "latency_p50_ms", "latency_p99_ms",
)  # fmt: skip


def topic_stats(
    stores: Stores,
    topics: filters.Topics = None,
    master: Master = "local[*]",
    conf: Conf = None,
    option: SourceOption = None,
    log: Log = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Show messages, bytes, rates, tags and latency for each topic and hour (UTC) of the store time.

    Latency is store time minus born time; median and 99th percentile are within 1.6 %.

    Example:
      rmqcore spark topic-stats /data/store
    """
    options = source_options(option, stores, topics=topics)
    with spark_session(master, conf, log, what="topic-stats", no_progress=no_progress) as spark:
        from rmqcore.spark import topic_stats as stats

        rows = plain_rows(stats(spark, stores, **options).orderBy("topic", "hour"))
    show_rows("topics", rows, SHOWN, as_json=json)
    return OK
