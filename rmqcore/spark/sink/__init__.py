"""Writing stores from Spark: each task writes a store of its own, and all stores of a write are committed at once.

Beside `spark.rebuild` the only room of Spark that imports the engine.
"""
