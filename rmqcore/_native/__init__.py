"""The extensions, in rooms by subject, each beside its kernels; their names are private, what they do is public above.

Rooms, each importing only those before it: ``format | threads``, ``files | text``, ``scan | put``, ``queues | index``,
``dispatch``.
"""

try:
    import rmqcore._native.format.codec  # noqa: F401 - stands for all of them: they are built together
except ImportError as _error:
    from rmqcore._native.not_built import why_not_loaded

    raise ImportError(why_not_loaded(_error), name="rmqcore._native.format.codec") from _error
