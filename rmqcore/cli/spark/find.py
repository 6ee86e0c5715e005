"""``rmqcore spark find``: messages by key or id, over many stores at once."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.bodies import BodyMode
from rmqcore.cli.common.errors import note
from rmqcore.cli.spark.rows import plain_rows, show_rows
from rmqcore.cli.spark.run_options import RunOptions, Stores, spark_verb
from rmqcore.cli.values import choice
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.log.damage import DamageWarning

SHOWN = ("broker", "store_timestamp", "topic", "queue_id", "queue_offset", "tags", "keys", "body")


@spark_verb
def find(
    run: RunOptions,
    stores: Stores,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="KEY", help="A word of KEYS, or a UNIQ_KEY; may be repeated."
        ),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="A message id: the client's or the broker's; may be repeated.",
        ),
    ] = None,
    topics: arguments.Topics = None,
    use_index: Annotated[
        bool,
        typer.Option(
            "--use-index", help="Look the keys up in the IndexFiles instead of reading the logs."
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", parser=arguments.count_option, help="At most N messages."
        ),
    ] = None,
    body: Annotated[
        BodyMode,
        choice(BodyMode, "--body", help="How to show bodies: text, base64, SHA-256, or none."),
    ] = BodyMode.text,
) -> int:
    """Find messages by key or id in all stores.

    A broker's message id is looked up at its offset; for other ids, and for keys, the stores are read. With --use-index
    the exit code is 2 if the index has entries of messages that the log lacks.

    Example:
      rmqcore spark find /data/store --id 7F00000100002A9F0000000000012F3C
      rmqcore spark find "/data/*/store" --key order-4711 --topic Orders
    """
    if not keys and not ids:
        raise typer.BadParameter("missing --key or --id: give at least one", param_hint="--key")
    options = run.source_options(stores)
    with run.session("find") as spark:
        from rmqcore.spark import find as find_messages

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", DamageWarning)
            frame = find_messages(
                spark,
                stores,
                keys=keys,
                ids=ids,
                topic=topics or None,
                useIndex=use_index,
                **options,
            )
        if limit is not None:
            frame = frame.limit(limit)
        rows = plain_rows(frame, body)
    rows.sort(key=lambda row: (str(row.get("broker")), row.get("phy_offset") or 0))
    show_rows(
        "messages",
        rows,
        [name for name in SHOWN if not rows or name in rows[0]],
        as_json=run.prints_json,
    )
    lacking = False
    for one in warned:
        note(f"Warning: {one.message}")
        lacking = lacking or issubclass(one.category, DamageWarning)
    return DAMAGED if lacking else OK
