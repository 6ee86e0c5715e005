"""The project's benchmarks: ``python -m bench`` from the repository's root.

Every requirement is a ratio between two measurements of one run on one machine (ours against zlib, memcpy, a plain sum, Java),
so that a slow or busy machine gives the same answer. Only memory and the time of fsck are absolute numbers.
"""
