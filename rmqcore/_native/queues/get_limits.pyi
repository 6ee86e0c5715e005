from typing import Any, Self, final

@final
class GetLimits:
    # A MessageStoreConfig, which these modules do not know.
    def __new__(cls, config: Any, memory_bytes: int | None = None) -> Self: ...
    def is_full(
        self,
        count: int,
        total: int,
        msg_size: int,
        most: int,
        most_bytes: int,
        in_memory: bool,
    ) -> bool: ...

def messages_of_get(max_messages: int) -> int: ...
def bytes_of_get(max_bytes: int | None) -> int: ...
