"""A CommitLog that is only appended to: small, in one file, with a clock that stands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rmqcore import Message, MessageStoreConfig
from rmqcore._native.put.arrow_put import put_arrow
from rmqcore._native.put.put_result import STATUSES
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.log.commitlog import CommitLog

NOW_MS = 1_700_000_000_123


@dataclass(frozen=True)
class Appended:
    """What a call answered, for comparing."""

    statuses: list[str]
    phy_offsets: list[int]
    queue_offsets: list[int]
    timestamps_ms: list[int]


class AppendLog:
    """`put_many` and `put_arrow` into one log, and its bytes."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.refused_at = -1
        self.refusal: str | None = None
        self.refused_column: str | None = None

    def put_many(self, messages: list[Message]) -> Appended:
        codes, *columns, _, _, _ = self.log.appender.put_many(messages)
        return Appended([STATUSES[code].name for code in codes], *(c.tolist() for c in columns))

    def put_arrow(self, data: object) -> Appended:
        codes, *columns, self.refused_at, self.refusal, self.refused_column, _ = put_arrow(
            self.log.appender, data
        )
        return Appended([STATUSES[code].name for code in codes], *(c.tolist() for c in columns))

    @property
    def data(self) -> bytes:
        """All files one after the other, up to the end of what was appended."""
        end = self.log.max_offset
        parts = []
        for start in self.log.file_starts():
            window = self.log.window(start)
            if window is not None and start < end:
                parts.append(bytes(window[0][: end - start]))
        return b"".join(parts)


@contextmanager
def append_log(
    file_size: int = 1 << 20, *, max_message_size: int = 1 << 18, append_prop_crc: bool = False
) -> Iterator[AppendLog]:
    """A log in a folder of its own, removed afterwards."""

    def failed(error: OSError) -> None:
        raise error

    config = MessageStoreConfig(
        mapped_file_size_commit_log=file_size,
        max_message_size=max_message_size,
        enabled_append_prop_crc=append_prop_crc,
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = StorePaths(folder)
        paths.commitlog.mkdir()
        log = CommitLog(paths, config, clock=lambda: NOW_MS, on_failure=failed)
        log.load()
        log.begin(0)
        yield AppendLog(log)
        log.close()
