"""Spark's own requirements: versions, Java, workers, code sent to them, and tasks.

Imports `errors` and nothing else of the package.
"""
