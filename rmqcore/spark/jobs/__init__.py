"""Whole jobs over stores: audit, compare, find, totals by topic, export.

Imports `spark.reading`, `spark.output` and the rooms below them, and nothing of the engine.
"""
