"""Paths and file sizes of a store, for the verbs that open or build a store."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from rmqcore.cli.common.errors import note
from rmqcore.config import MessageStoreConfig
from rmqcore.config.broker_conf import java_name
from rmqcore.config.unused import UnusedSettingWarning
from rmqcore.disk.inside.links import refuse_links
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import refuse_to_write
from rmqcore.errors import NotAStoreError
from rmqcore.offline.found_config import SIZE_FIELDS, config_to_open, found_config
from rmqcore.offline.log.log_files import check_log_directories, check_one_log
from rmqcore.offline.log.store_paths import add_dledger_log


def store_settings(
    store: Path,
    config: Path | MessageStoreConfig | None,
    commitlog: str | None,
    *,
    follow_links: bool,
    to_open: bool = False,
) -> tuple[StorePaths, MessageStoreConfig]:
    """Return paths and configuration of a store, with the file sizes of its files; links are refused (`refuse_links`).

    `config` is a ``broker.conf``, or what `read_config` made of it. With `to_open` it is for `rmqcore.open`, which
    takes these sizes for given: one that a lone file tells is looked at as an open would (`config_to_open`).
    """
    base = read_config(config) if isinstance(config, Path) else config
    if commitlog is not None:
        base = (base or MessageStoreConfig()).changed(
            store_path_commit_log=commitlog, read_only_commit_log_store_paths=None
        )
    if base is None:
        paths = StorePaths(store, follow_links=follow_links)
    else:
        paths = StorePaths.configured(
            store,
            base.store_path_commit_log,
            base.read_only_commit_log_store_paths,
            follow_links=follow_links,
        )
    names = os.listdir(store)  # raises if the directory is missing
    refuse_links(paths)
    check_log_directories(paths)
    if commitlog is None:
        check_one_log(paths)
    if to_open:
        refuse_to_write(paths)
    elif commitlog is None:
        add_dledger_log(paths)
    if not {"commitlog", "consumequeue"} & set(names) and not paths.commitlog.is_dir():
        raise NotAStoreError(f"{store} has neither commitlog/ nor consumequeue/")
    wanted = base or MessageStoreConfig()
    found = config_to_open(paths, wanted) if to_open else found_config(paths, wanted)
    for name in sorted(SIZE_FIELDS & wanted.given):
        given, size = getattr(wanted, name), getattr(found, name)
        if size != given:
            note(
                f"Warning: the broker.conf has {java_name(name)}={given}, the files of {store} "
                f"have {size}, which is used here: correct broker.conf before you start a broker "
                "with it"
            )
    return paths, found


def read_config(config: Path, *, runs: bool = False) -> MessageStoreConfig:
    """Read a ``broker.conf`` for what it says of files, and print which keys no RocketMQ knows.

    If the verb `runs` a store, keys that only a running store would act on are reported, and the root in the file is kept.
    Other verbs ignore both: their user has named the store.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = MessageStoreConfig.from_broker_conf(config)
    for one in caught:
        if runs or not issubclass(one.category, UnusedSettingWarning):
            note(f"Warning: {one.message}")
    return settings if runs else settings.changed(store_path_root_dir=None)
