"""Reading of any store directory, also one that is in use or broken: nothing is written, locked or mapped.

Rooms, each importing only those before it: ``remote``, ``log | index``, ``queues | info``, ``lookup | frames``, ``reader``,
``tail | found_config``, ``fsck | export | stats | diff | lazy``.
Below them all: `rmqcore.disk`, `rmqcore.queries` and the vocabulary; of `rmqcore.engine` and `rmqcore.services` nothing.
"""
