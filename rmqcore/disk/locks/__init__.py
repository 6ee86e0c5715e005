"""Locks of a store: the lock file that Java takes too, locks on directories, and detection of writers without locks.

Imports only `disk`, the vocabulary and `_native`.
"""
