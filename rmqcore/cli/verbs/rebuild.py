"""``rmqcore rebuild``: consume queues and index from the CommitLog, beside the originals or in their place."""

from __future__ import annotations

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
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.swap import PARTS
from rmqcore.errors import TargetNotEmptyError
from rmqcore.maintenance.rebuild.rebuild import rebuild as rebuild_store
from rmqcore.offline.found_config import found_sizes


def rebuild(
    store: arguments.Store,
    cq: Annotated[bool, typer.Option("--cq", help="Only the consume queues.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Only the index.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="A new or empty directory.",
            show_default="STORE/rebuilt",
            parser=arguments.local_folder,
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Replace the old directories by the new ones.")
    ] = False,
    drop: arguments.Drop = None,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Build consumequeue/ and index/ from the commitlog.

    The store may be in use or damaged. With --apply it must not be in use: it is recovered first if it was not
    cleanly closed, then the new directories replace the old ones. If the old ones have entries that cannot be
    rebuilt, nothing is replaced, and the error names their number N; --drop N accepts the loss.

    Exit code 2: the log is damaged or messages are in no queue, as the report lists; or the old directories have
    entries that cannot be rebuilt, or files of another program. Queue offsets do not change in any case.

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

    if apply and AbortFile(paths.abort).exists:
        note("the store was not cleanly closed: recovering it first")
    try:
        with progress_bar("rebuild", no_progress=no_progress) as progress:
            report = rebuild_store(
                paths,
                out,
                queues="consumequeue" in wanted,
                index="index" in wanted,
                config=settings,
                apply=apply,
                drop=drop,
                progress=progress,
            )
    except TargetNotEmptyError as error:
        error.hint = "choose a new or empty directory with --out DIR; nothing was changed"
        raise
    fields = {**report.as_dict(), "applied": apply}
    if wants_json(json):
        print_json(fields)
    else:
        print_summary(report, applied=apply)
    report_damage(report.damage)
    return report.exit_code


def _note_sizes(paths: StorePaths, config: MessageStoreConfig, parts: list[str]) -> None:
    """Print which sizes are Java's defaults because no file shows them: a broker with other sizes could not use the result."""
    found = found_sizes(paths, config)
    if "consumequeue" in parts and "mapped_file_size_consume_queue" not in found:
        size = config.consume_queue_file_size
        note(f"no queue file tells its size: taking Java's {size} bytes; --config names another")
    if "index" in parts and "max_hash_slot_num" not in found:
        slots, entries = config.max_hash_slot_num, config.max_index_num
        note(
            f"no index file tells its slots: taking Java's {slots} and {entries} entries; --config names others"
        )
