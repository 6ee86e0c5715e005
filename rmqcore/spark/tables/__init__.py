"""The tables of the data source, each in a file: how a read becomes parts on the driver, and how a task reads a part.

Imports `spark.reading` and the rooms below it, `offline` and `disk`.
"""
