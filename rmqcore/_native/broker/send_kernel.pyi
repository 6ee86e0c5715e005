from collections.abc import Sequence
from typing import Final, Self, final

from typing_extensions import Buffer

from rmqcore._native.put.appender import Appender

MORE: Final[int]
PYTHON: Final[int]
BROKEN: Final[int]

NOTHING: Final[int]
MSG_ID: Final[int]
QUEUE_ID: Final[int]
QUEUE_OFFSET: Final[int]
TRANSACTION_ID: Final[int]
OPAQUE: Final[int]

@final
class Fed:
    @property
    def taken(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def answers(self) -> bytes: ...
    @property
    def answer_count(self) -> int: ...
    @property
    def end_phy_offset(self) -> int: ...

@final
class SendKernel:
    def __new__(
        cls,
        appender: Appender,
        *,
        store_host: bytes,
        added: bytes,
        answers: Sequence[Sequence[tuple[bytes, int]]],
        waits: bool,
    ) -> Self: ...
    def set_topic(self, name: str, queue_nums: int) -> None: ...
    def forget_topic(self, name: str) -> None: ...
    def take_counts(self) -> list[tuple[str, int, int, int]]: ...
    def feed(self, buffer: Buffer, begin: int, end: int, born_host: bytes) -> Fed: ...
