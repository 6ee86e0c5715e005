"""`stats`: what a store holds, counted at the speed of a scan; its rules are those of Spark's statistics, too.

Messages by topic, hour and queue (`groups`, with `buckets`, `pair_counts` and `tag_counts`), over time (`timeline`), and
consumers (`lag`). It imports `offline.reader` and what that imports; Spark and the command line import it.
"""

from rmqcore.offline.stats.count import stats
from rmqcore.offline.stats.report import ConsumerLag, StatsReport

__all__ = ["ConsumerLag", "StatsReport", "stats"]
