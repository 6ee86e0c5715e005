"""The project's benchmarks: ``python -m bench`` from the repository's root.

Every requirement is a ratio between two things measured in one run on one machine (against zlib, memcpy, a plain sum,
Java), so that a slow or a busy machine gives the same answer. Only memory and the time of fsck are absolute.
"""
