"""The columns, schemas and pushed-down conditions of a read.

Imports `spark.options`, `spark.splits`, `spark.storage`, `spark.runtime` and what they import.
"""
