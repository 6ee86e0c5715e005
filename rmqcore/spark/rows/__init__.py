"""What a read asks for: columns, schemas, and conditions that are pushed down.

It imports `spark.options`, `spark.splits`, `spark.storage`, `spark.runtime` and what they import.
"""
