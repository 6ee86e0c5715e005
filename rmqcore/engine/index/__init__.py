"""The index files of an open store: one file, the folder, and the service that puts, flushes and queries.

Imports of the engine nothing: `disk`, `queries`, the vocabulary and `_native`.
"""
