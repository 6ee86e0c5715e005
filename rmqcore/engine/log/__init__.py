"""The CommitLog of an open store: its mapped files, the space ahead of its end, and the appends.

Imports of the engine nothing: `disk`, the vocabulary and `_native`.
"""
