"""`rmqcore.open`: a store with its threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.store import MessageStore
from rmqcore.services import Services
from rmqcore.services.exit import close_at_exit


def open(  # noqa: A001  # rmqcore.open is the name that a user expects beside the built-in one
    path: str | os.PathLike[str],
    config: MessageStoreConfig | str | os.PathLike[str] | None = None,
    *,
    create: bool = True,
    clock: Callable[[], int] | None = None,
    services: bool = True,
    **overrides: Any,
) -> MessageStore:
    """Open a store for writing and recover it; a new one is made where nothing is.

    Parameters
    ----------
    path : path-like
        The store's root: the directory of commitlog/, consumequeue/ and index/.
    config : MessageStoreConfig or path-like, optional
        Or the path of a ``broker.conf``. Java's defaults without one.
    create : bool
        Make the directory when it is not there.
    clock : callable, optional
        Answers milliseconds since the epoch; called once a put inside the append lock.
    services : bool
        Run the threads that flush, dispatch and allocate. False: the caller makes the steps, `MessageStore.dispatch_once`,
        `flush` and so on.
    **overrides
        Fields of MessageStoreConfig; they win over `config`.

    Returns
    -------
    MessageStore
        A context manager, which closes it.

    Raises
    ------
    StoreLockedError
        Another process writes the store, or this one has it open.
    NotAStoreError
        Nothing is there and `create` is false.
    StoreFormatError
        Files of another size than configured.
    ValueError
        A setting that its field cannot take.
    OSError
        The directory cannot be read or written.
    """
    settings = _settings(config, overrides)
    paths = StorePaths(path, commitlog=settings.store_path_commit_log)
    store = MessageStore(paths, settings, create=create, clock=clock)
    close_at_exit(weakref.ref(store))
    if services:
        try:
            threads = Services(store)
            store.attach(threads)
            threads.start()
        except BaseException:
            store.close()
            raise
    return store


def _settings(
    config: MessageStoreConfig | str | os.PathLike[str] | None, overrides: dict[str, Any]
) -> MessageStoreConfig:
    if config is None:
        return MessageStoreConfig(**overrides)
    if isinstance(config, MessageStoreConfig):
        return replace(config, **overrides)
    return MessageStoreConfig.from_broker_conf(config, **overrides)
