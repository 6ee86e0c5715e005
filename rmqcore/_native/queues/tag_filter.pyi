from typing import Final, Self, final

LAST_EXT_ADDRESS: Final[int]

@final
class TagFilter:
    def __new__(cls, expression: str | None = None) -> Self: ...
    @property
    def codes(self) -> frozenset[int] | None: ...
    def matches(self, tags_code: int) -> bool: ...
