"""Reading stores as they grow: offsets, batches, limits, damage, lag, and a log whose oldest files are deleted meanwhile.

Imports `spark.tables`, `spark.reading` and the rooms below them, and `offline`.
"""
