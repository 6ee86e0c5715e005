import os
from typing import Self, final

@final
class Descriptor:
    def __new__(
        cls,
        path: str | os.PathLike[str],
        flags: int,
        folder: Descriptor | None = None,
        mode: int = 0o644,
    ) -> Self: ...
    @property
    def mode(self) -> int: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
