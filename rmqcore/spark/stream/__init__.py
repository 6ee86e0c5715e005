"""Reading stores as they grow: offsets, batches, limits, damage, lag, and logs whose oldest files are deleted.

Imports `spark.tables`, `spark.reading` and the rooms below them, and `offline`.
"""
