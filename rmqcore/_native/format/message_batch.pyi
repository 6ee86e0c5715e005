from typing import NamedTuple

from typing_extensions import Buffer

class BatchMessage(NamedTuple):
    flag: int
    body: bytes
    properties: dict[str, str]

def decode_batch(body: Buffer, *, check_size: bool = True) -> list[BatchMessage]: ...
