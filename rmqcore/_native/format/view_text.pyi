from typing import Any, Final

from rmqcore._native.format.codec import MessageView

LINE: Final[int]
VALUES: Final[tuple[str, ...]]

def values_of(view: MessageView) -> dict[str, Any]: ...
def line_of(view: MessageView) -> str: ...
