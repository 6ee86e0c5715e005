"""Byte ranges of a CommitLog that tasks read: how the driver cuts files, leaves files out, and checks the tasks' reports.

Imports `spark.storage`, `spark.runtime`, `offline` and `disk`.
"""
