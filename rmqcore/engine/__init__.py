"""The owner of a store directory: it holds the lock, maps files for writing, recovers. Each step is a method; no threads.

Rooms, each importing only those before it: ``log | queues | index``, ``dispatch | clean``, ``recovery``, ``store``. Below them
all: `rmqcore.disk`, `rmqcore.queries` and the vocabulary.
"""
