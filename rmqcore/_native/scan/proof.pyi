from collections.abc import Callable
from typing import Final, Self, final

from typing_extensions import Buffer

from rmqcore._native.scan.places import Place
from rmqcore._native.threads.descriptor import Descriptor

PAGE: Final[int]

@final
class Prover:
    def __new__(
        cls,
        read_into: Callable[[memoryview, int], int],
        file_from_offset: int,
        descriptor: Descriptor | None = None,
        end: int = 0,
    ) -> Self: ...
    @property
    def pages_read(self) -> int: ...
    @property
    def has_states(self) -> bool: ...
    def guesses(
        self, buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int
    ) -> list[int]: ...
    def shape(
        self, buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int
    ) -> Place: ...
    def step(
        self, buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int
    ) -> Place: ...
    def find(
        self, buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int
    ) -> Place: ...
    def begin_states(self, data_bytes: int) -> None: ...
    def add(self, buf: Buffer, length: int, pos: int) -> None: ...
    def forget(self) -> None: ...
