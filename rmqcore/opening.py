"""`rmqcore.open`: opens a store and starts its threads."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.config.unused import LEFT_TO_JAVA, REFUSED_KEYS, not_true_here, warn_unused
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreLockedError
from rmqcore.errors.arguments import check_callables
from rmqcore.offline.found_config import adopt_sizes
from rmqcore.services import Services
from rmqcore.services.exit import close_at_exit
from rmqcore.services.service import any_step_runs

LONGEST_STEP = 2.0  # seconds that an open waits for the threads of a store that was dropped


def open(  # noqa: A001  # rmqcore.open is the name that a user expects beside the built-in one
    path: str | os.PathLike[str],
    config: MessageStoreConfig | str | os.PathLike[str] | None = None,
    *,
    create: bool = True,
    clock: Callable[[], int] | None = None,
    services: bool = True,
    recover: str = "normal",
    progress: Callable[[int, int], object] | None = None,
    follow_links: bool = False,
    **overrides: Any,
) -> MessageStore:
    """Open a store for writing and recover it. If there is no store, a new one is created.

    Parameters
    ----------
    path : path-like
        The store's root: the directory of commitlog/, consumequeue/ and index/.
    config : MessageStoreConfig or path-like, optional
        The configuration, or the path of a ``broker.conf``. Defaults are Java's, except file sizes that neither `config` nor
        `overrides` set: they are read from an existing store's files (`rmqcore.find_config`).
    create : bool
        Create the directory if it does not exist.
    clock : callable, optional
        Returns milliseconds since the epoch; called once per put inside the append lock.
    services : bool
        Run the threads that flush, dispatch and allocate. With False the caller makes their steps: `MessageStore.dispatch_once`,
        `flush` and so on.
    recover : str
        ``"deep"``: compare all queues and index files with the whole log, and repair them, which takes about as long as building
        them. ``"normal"``: compare them only after an unclean exit, for the newest `recover_check_bytes` of the log
        (docs/durability.md).
    progress : callable, optional
        Called with (bytes done, bytes in all) of each part of the recovery.
    follow_links : bool
        Follow links at ``commitlog``, ``consumequeue`` and ``index`` in the root, as Java does. Other links inside a store are
        never followed. Directories that `config` names may be links.
    **overrides
        Fields of MessageStoreConfig; they win over `config`.

    Returns
    -------
    MessageStore
        The open store, a context manager that closes it.

    Raises
    ------
    StoreLockedError
        The store is already open for writing, in this or another process.
    NotAStoreError
        There is no store, and `create` is false.
    StoreFormatError
        Files differ in size from the setting or from each other; the error names the file, its size and the expected one.
    LinkError
        A file or directory of the store is a link.
    ValueError
        A setting or `recover` is invalid, or the ``broker.conf`` is that of a store of another kind (DLedger, RocksDB).
    TypeError
        A setting is unknown, `config` has another type, or `clock` or `progress` is not callable.
    OSError
        The directory cannot be read or written, or the ``broker.conf`` cannot be read.

    Warns
    -----
    UnusedSettingWarning
        A setting has no effect in this release (docs/config.md).
    """
    for name, given in (("clock", clock), ("progress", progress)):
        if given is not None:
            check_callables(**{name: given})
    mode = RecoverMode.named(recover, progress)
    settings = _settings(config, overrides)
    return open_by_mode(
        path,
        settings,
        mode,
        create=create,
        clock=clock,
        services=services,
        follow_links=follow_links,
    )


def open_by_mode(
    path: str | os.PathLike[str],
    settings: MessageStoreConfig,
    mode: RecoverMode,
    *,
    create: bool = False,
    clock: Callable[[], int] | None = None,
    services: bool = False,
    follow_links: bool = False,
) -> MessageStore:
    """Do the work of `open` with a `RecoverMode`, whose `approve` may end it before anything is changed."""
    paths = StorePaths.configured(
        path,
        settings.store_path_commit_log,
        settings.read_only_commit_log_store_paths,
        follow_links=follow_links,
    )
    _compare_root(paths, settings)
    store = None
    try:
        store = _opened(
            partial(
                MessageStore,
                paths,
                settings,
                create=create,
                clock=clock,
                mode=mode,
                settle=adopt_sizes,
            )
        )
        close_at_exit(weakref.ref(store))
        if services:
            threads = Services(store)
            store.attach(threads)
            threads.start()
        return store  # noqa: TRY300  # an interrupt up to here closes the store again
    except BaseException:
        if store is not None:
            store.close()
        raise


def _opened(make: Callable[[], MessageStore]) -> MessageStore:
    """Make the store, for which a store that was dropped without a close may have to end first.

    A thread that was in the middle of a step, a sync perhaps, holds the dropped store and its locks until that step ends.
    """
    give_up_at = time.monotonic() + LONGEST_STEP
    while True:
        wait = any_step_runs()  # asked before: the step may end while this open meets its lock
        try:
            return make()
        except StoreLockedError:
            if not wait or time.monotonic() > give_up_at:
                raise
        time.sleep(0.001)


def _settings(config: object, overrides: dict[str, Any]) -> MessageStoreConfig:
    """Return the settings of an open, and refuse a store that rmqcore must not write. Nothing is touched before."""
    settings = _configured(config, overrides)
    for sentence in not_true_here(settings.extra, REFUSED_KEYS):
        raise ValueError(sentence)
    for sentence in not_true_here(settings.extra, LEFT_TO_JAVA):
        warn_unused(sentence)
    return settings


def _configured(config: object, overrides: dict[str, Any]) -> MessageStoreConfig:
    if config is None:
        return MessageStoreConfig(**overrides)
    if isinstance(config, MessageStoreConfig):
        return config.changed(**overrides)
    if isinstance(config, str | os.PathLike):
        return MessageStoreConfig.from_broker_conf(config, **overrides)
    hint = "; pass its items as keywords: **config" if isinstance(config, Mapping) else ""
    raise TypeError(
        f"config: expected a MessageStoreConfig or the path of a broker.conf, got {type(config).__name__}{hint}"
    )


def _compare_root(paths: StorePaths, settings: MessageStoreConfig) -> None:
    """Warn if the root of a configuration is not that of the store that is opened."""
    if differs := other_root(paths.root, settings):
        warn_unused(differs)


def other_root(store: Path, settings: MessageStoreConfig) -> str | None:
    """Name the root of a configuration where it is another one than that of the store that is opened."""
    root = settings.store_path_root_dir
    if root is None or os.path.realpath(root) == os.path.realpath(store):
        return None
    return f"store_path_root_dir (storePathRootDir) is {root}, but the store to open is {store}"
