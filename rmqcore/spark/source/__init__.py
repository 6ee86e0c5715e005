"""The data source `rmqstore`: the classes that Spark calls, and how they are registered.

Imports `spark.stream`, `spark.tables` and the rooms below them.
"""
