"""``rmqcore lookup``: one message by its id or CommitLog offset."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.answers import Answer
from rmqcore.cli.common.errors import report_damage, say
from rmqcore.cli.stores.given_store import opened_store
from rmqcore.codec import parse_msg_id
from rmqcore.errors.exit_codes import DAMAGED, FAILED
from rmqcore.offline.export.message_rows import MAX_BODY
from rmqcore.offline.missing_log import LOG_MISSING
from rmqcore.vocabulary.units import LONG_MAX

MESSAGE_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")


def lookup(
    store: arguments.AnyStore,
    id_or_offset: Annotated[
        str,
        typer.Argument(
            metavar="ID_OR_OFFSET",
            help="The broker's message id (32 or 56 hex digits) or a CommitLog offset.",
        ),
    ],
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    unwrap: arguments.Unwrap = False,
    max_body: arguments.MaxBody = MAX_BODY,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: arguments.Format = None,
    out: arguments.Out = None,
    csv_safe: arguments.CsvSafe = False,
    json: arguments.Json = False,
) -> int:
    """Print the message with this id, or at this CommitLog offset.

    The id is the broker's message id, which has 32 or 56 hex digits. A record must start at the CommitLog offset.
    The exit code is 1 if there is no such message. It is 2 if the log lacks messages at its end, so that the
    message may be one of them, and if the body of the message fails its CRC.

    Example:
      rmqcore lookup /data/store 7F00000100002A9F0000000000012F3C
      rmqcore lookup /data/store 77628
    """
    answer = Answer(
        asked_format,
        out,
        body,
        decompress=decompress,
        max_body=max_body,
        as_json=json,
        csv_safe=csv_safe,
        unwrap=unwrap,
    )
    by_id = MESSAGE_ID.fullmatch(id_or_offset)
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        view = reader.lookup_id(id_or_offset) if by_id else reader.lookup(_offset(id_or_offset))
        if view is not None:
            code = answer.show_one(view)
            damage = reader.failed_crcs([view])
            report_damage(damage)
            return DAMAGED if damage else code
        wanted = parse_msg_id(id_or_offset).phy_offset if by_id else _offset(id_or_offset)
        missing = [
            one
            for one in reader.missing_log()
            if one.start_phy_offset <= wanted
            and (wanted < one.end_phy_offset or one.kind == LOG_MISSING)
        ]
        if missing:
            report_damage(missing)
            return DAMAGED
        if by_id:
            say(
                f"no message has the broker's message id {id_or_offset}",
                f"if this is the client's id (UNIQ_KEY): rmqcore query {store} --topic TOPIC --key {id_or_offset}",
            )
        else:
            say(
                f"no record starts at CommitLog offset {id_or_offset}",
                f"rmqcore cat {store} --from-phy {id_or_offset} --limit 1 shows the next one",
            )
        return FAILED


def _offset(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or int(text) > LONG_MAX:
        raise typer.BadParameter(
            f"{text!r} is neither a message id (32 or 56 hex digits) nor a CommitLog offset",
            param_hint="ID_OR_OFFSET",
        )
    return int(text)
