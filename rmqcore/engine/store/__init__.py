"""MessageStore: an open store, put together from log, queues, index, dispatcher and recovery.

Imports all rooms of the engine; nothing of the engine imports it.
"""
