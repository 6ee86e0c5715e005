"""Queues and index made anew from the log, beside the originals.

It reads as `rmqcore.offline` does and builds with parts of `rmqcore.engine` (``dispatch``, ``index``, ``queues``);
the command line and Spark import it.
"""
