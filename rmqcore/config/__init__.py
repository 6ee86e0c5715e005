"""The settings of a store: their names and defaults, their ranges, and the keys of a ``broker.conf``.

Imports `rmqcore.shown`, `rmqcore.vocabulary` and `rmqcore.errors`.
"""

from rmqcore.config.store_config import MessageStoreConfig

__all__ = ["MessageStoreConfig"]
