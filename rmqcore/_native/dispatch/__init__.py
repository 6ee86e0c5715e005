"""From the log to queues and index without the GIL, as long as all that comes is plain.

Imports `_native.format`, `_native.threads`, `_native.scan`, `_native.put`, `_native.queues`, `_native.index`.
"""
