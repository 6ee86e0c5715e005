"""ConsumeQueues of an open store: the table that writes them, one queue for reading, a whole get.

Imports `_native.format`, `_native.scan`, `_native.files`; `rmqcore.vocabulary.status`.
"""
