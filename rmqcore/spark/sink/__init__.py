"""Writing stores from Spark: each task a store of its own, all of a write committed at once.

Beside `spark.rebuild` the only room of Spark that imports the engine.
"""
