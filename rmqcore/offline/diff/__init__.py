"""Two stores compared: their logs as ranges that differ, record by record, and their queues entry by entry.

``diff`` is the way in. `plan` says what both have, `pieces` compares bytes, `units` makes whole records of bytes that differ, and
`difference` names what a range is; Spark's comparison runs the same in many tasks. `queue_diff` compares queues.
"""

from rmqcore.offline.diff.diff import diff
from rmqcore.offline.diff.report import DiffReport

__all__ = ["DiffReport", "diff"]
