"""From records to rows: columns, schemas, conditions that are pushed down, Arrow batches.

It imports `spark.options`, `spark.splits`, `spark.storage`, `spark.runtime` and what they import.
"""
