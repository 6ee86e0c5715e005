"""Queries that read only what they need: the columns and conditions of a query, and its sources read anew with these.

Imports `spark.source` and the rooms below it. It works on Spark's plans, which live in Java.
"""
