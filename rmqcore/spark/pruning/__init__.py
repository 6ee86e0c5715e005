"""Queries that read only what they need: a query's columns and conditions, and its sources, planned again with these.

Imports `spark.source` and the rooms below it. It works on Spark's plans, which live in Java.
"""
