"""Byte ranges of a CommitLog that tasks read: how files are cut, what is left out, and what each task reports.

Imports `spark.storage`, `spark.runtime`, `offline` and `disk`.
"""
