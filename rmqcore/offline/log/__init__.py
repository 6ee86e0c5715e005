"""A CommitLog on disk: its files, windows of their bytes, the walk over the records, and what damage is.

Imports of the offline side nothing: `disk`, the vocabulary and `_native`.
"""
