from typing import final

from rmqcore._native.put.message import Message

@final
class PutChunk: ...

def differing(first: Message, other: Message) -> str: ...
