"""Records of a window as columns, Arrow batches and views; the search for the next record behind damage.

Imports `_native.format`.
"""
