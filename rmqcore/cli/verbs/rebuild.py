"""``rmqcore rebuild``: consume queues and index from the CommitLog, beside the originals or in their place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import print_json, wants_json
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.rebuild_summary import print_summary
from rmqcore.cli.stores.store_settings import store_settings
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.inside.folder import remove_made
from rmqcore.disk.locks.store_locks import StoreLocks
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.swap import PARTS, check_swappable, finish_swaps, swap_in
from rmqcore.errors import StoreError, TargetNotEmptyError
from rmqcore.maintenance.rebuild.rebuild import rebuild as rebuild_store
from rmqcore.maintenance.rebuild.report import FOLDER, RebuildReport
from rmqcore.offline.found_config import found_sizes
from rmqcore.opening import open as open_store


def rebuild(
    store: arguments.Store,
    cq: Annotated[bool, typer.Option("--cq", help="Only the consume queues.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Only the index.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="A new or empty folder.",
            show_default="STORE/rebuilt",
            parser=arguments.local_folder,
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Put the new folders in the place of the old.")
    ] = False,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Build consumequeue/ and index/ anew from the commitlog.

    The store may be in use or broken. With --apply nobody else may use it: it is recovered first if
    it was not cleanly closed, then the new folders take the places of the old ones.

    Exit code 2: the log is damaged; the report says where. Queues keep their offsets all the same.

    Example:
      rmqcore rebuild /data/store --out /data/rebuilt
      rmqcore rebuild /data/store --cq --apply
    """
    paths, settings = store_settings(
        store, config, commitlog, follow_links=follow_links, to_open=apply
    )
    wanted = [part for part, asked in zip(PARTS, (cq, index), strict=True) if asked] or list(PARTS)
    if config is None:
        _note_sizes(paths, settings, wanted)

    def build(folder: Path) -> RebuildReport:
        with progress_bar("rebuild", no_progress=no_progress) as progress:
            return rebuild_store(
                paths,
                folder,
                queues="consumequeue" in wanted,
                index="index" in wanted,
                config=settings,
                overwrite=out is None,
                progress=progress,
            )

    try:
        report = (
            _in_place(paths, settings, build, out, wanted)
            if apply
            else build(paths.root / FOLDER if out is None else out)
        )
    except TargetNotEmptyError as error:
        error.hint = "--out DIR names another folder, an empty or new one; nothing was changed"
        raise
    fields = {**report.as_dict(), "applied": apply}
    if wants_json(json):
        print_json(fields)
    else:
        print_summary(report, applied=apply)
    report_damage(report.damage)
    return report.exit_code


def _note_sizes(paths: StorePaths, config: MessageStoreConfig, parts: list[str]) -> None:
    """Say which sizes are Java's defaults because no file tells them: a broker with other sizes could not use the result."""
    found = found_sizes(paths, config)
    if "consumequeue" in parts and "mapped_file_size_consume_queue" not in found:
        size = config.consume_queue_file_size
        note(f"no queue file tells its size: taking Java's {size} bytes; --config names another")
    if "index" in parts and "max_hash_slot_num" not in found:
        slots, entries = config.max_hash_slot_num, config.max_index_num
        note(
            f"no index file tells its slots: taking Java's {slots} and {entries} entries; --config names others"
        )


def _in_place(
    paths: StorePaths,
    config: MessageStoreConfig,
    build: Callable[[Path], RebuildReport],
    out: Path | None,
    parts: list[str],
) -> RebuildReport:
    """Build while this process holds the store's lock, then swap the new folders in."""
    folder = paths.root / FOLDER if out is None else out
    made = not os.path.lexists(folder)
    check_swappable(paths, parts)
    abort = AbortFile(paths.abort)
    if abort.exists:
        note("the store was not cleanly closed: recovering it first")
        open_store(
            paths.root, config, create=False, services=False, follow_links=paths.follow_links
        ).close()
    with StoreLocks(paths):
        if abort.exists:
            raise StoreError(
                f"{paths.root} was opened and not cleanly closed meanwhile: run this again"
            )
        finish_swaps(paths)
        report = build(folder)
        try:
            swap_in(paths, folder, parts)
        except BaseException:
            finish_swaps(
                paths
            )  # also after Ctrl-C: the store has the old or the new folders, never none
            raise
        if made:
            remove_made(folder)
    return report
