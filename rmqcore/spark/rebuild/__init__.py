"""Queues and index of a store made anew by many tasks.

The only room of Spark that reaches the engine, through `rmqcore.maintenance` too; imports `spark.reading`, `spark.output` and
the rooms below.
"""
