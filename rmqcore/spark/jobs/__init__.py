"""Whole jobs over stores: audit, compare, find, totals by topic, export.

It imports `spark.reading`, `spark.output` and the rooms below them, and nothing of the engine.
"""
