"""The index files of an open store, from one file to the folder to what puts, flushes and queries them.

Imports of the engine nothing: `disk`, `queries`, the vocabulary and `_native`.
"""
