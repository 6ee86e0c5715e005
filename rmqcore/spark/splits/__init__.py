"""Byte ranges of a CommitLog that tasks read: how the driver cuts files and leaves some out, and checks the tasks' reports.

Imports `spark.storage`, `spark.runtime`, `offline` and `disk`.
"""
