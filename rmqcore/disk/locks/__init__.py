"""Who has a store open: the lock file that Java takes too, locks on directories, and writers that take neither.

Imports only `disk`, the vocabulary and `_native`.
"""
