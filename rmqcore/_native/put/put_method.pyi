from collections.abc import Callable

from rmqcore._native.put.message import Message
from rmqcore._native.put.put_result import PutResult

class PutMethod:
    def _put_with(
        self, put: Callable[[Message], PutResult], append: Callable[[Message], PutResult]
    ) -> None: ...
    def put(self, message: Message) -> PutResult: ...
    def append(self, message: Message) -> PutResult: ...
