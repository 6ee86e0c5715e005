"""Rebuild of a store's queues and index by many tasks.

Beside `spark.sink` the only room of Spark that imports the engine, also through `rmqcore.maintenance`; imports
`spark.reading`, `spark.output` and the rooms below them.
"""
