"""Index files, read range by range: their entries, the number of their slots, the check of a whole file against itself.

Imports only `disk`, the vocabulary and `_native`.
"""
