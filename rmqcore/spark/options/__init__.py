"""The options of the data source and the jobs: a table of all options, their values, and a read's options as an object.

Imports `spark.splits`, `spark.storage`, `spark.runtime` and what they import.
"""
