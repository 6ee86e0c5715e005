from collections.abc import Iterable
from typing import Self

class Filter:
    def __new__(
        cls,
        *,
        topics: Iterable[str] | None = None,
        queue_ids: int | Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_phy_offset: int | None = None,
        end_phy_offset: int | None = None,
    ) -> Self: ...
