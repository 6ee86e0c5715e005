"""Tables that grow with the log: what a run exports, the watermark in the table, compaction, Delta Lake and Iceberg.

Imports `spark.stream`, `spark.jobs` and what those import; deltalake or pyiceberg only for a table of that format.
"""
