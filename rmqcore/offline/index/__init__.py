"""Index files on disk: listing, reading and checking them.

It imports no other room of the offline side, only `disk`, `queries`, the vocabulary and `_native`.
"""
