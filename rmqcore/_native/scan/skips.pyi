from collections.abc import Callable
from typing import Final, final

from rmqcore._native.scan.places import Gaps
from rmqcore._native.scan.proof import Prover

MOST_NOTES: Final[int]
BODYCRC: Final[int]

@final
class Skips:
    settled: int
    bytes_in_vain: int
    def __new__(
        cls, prover: Prover, *, leave_out: bool, credit_from: int, dledger: bool = False
    ) -> Skips: ...
    @property
    def prover(self) -> Prover: ...
    def __len__(self) -> int: ...
    def take(
        self, most: int, wants: Callable[[int], bool] | None = None
    ) -> tuple[list[tuple[int, int, int, int, int]], dict[int, int], int, int, int]: ...
    def gaps(self, begin: int, end: int, phy_offset: int) -> Gaps: ...
    def raise_error(self) -> None: ...
