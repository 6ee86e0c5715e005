"""Stores as tables that read what a query needs: a LazyFrame of Polars, a view of DuckDB.

Imports ``reader``, ``frames`` and ``log``. The libraries are imported when they are asked for.
"""
