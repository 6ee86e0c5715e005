from collections.abc import Iterable, Mapping
from typing import Final

from typing_extensions import Buffer

DEFAULT_HOST: Final[str]

class Message:
    topic: str
    body: Buffer
    properties: dict[str, str]
    queue_id: int
    flag: int
    sys_flag: int
    reconsume_times: int
    prepared_transaction_offset: int
    def __init__(
        self,
        topic: str,
        body: Buffer,
        queue_id: int = 0,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str | None] | None = None,
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int | None = None,
        born_host: str | None = None,
        store_host: str | None = None,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> None: ...
    @property
    def born_timestamp_ms(self) -> int | None: ...
    @born_timestamp_ms.setter
    def born_timestamp_ms(self, value: int | None) -> None: ...
    @property
    def born_host(self) -> str: ...
    @born_host.setter
    def born_host(self, text: str) -> None: ...
    @property
    def store_host(self) -> str: ...
    @store_host.setter
    def store_host(self, text: str) -> None: ...
    @property
    def tags(self) -> str | None: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    def _repr_html_(self) -> str: ...
