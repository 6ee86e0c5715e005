"""What goes into a store: `Message`. What comes out of one is a `MessageView`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache

from rmqcore._native.codec import MessageView

__all__ = ["Message", "MessageView", "pack_host"]

DEFAULT_HOST = "127.0.0.1:0"


class Message:
    """A message to be stored.

    Parameters
    ----------
    topic : str
    body : bytes-like
        Stored as it is.
    queue_id : int
    tags : str, optional
        Sugar for the TAGS property.
    keys : str or iterable of str
        Sugar for the KEYS property: words joined by spaces. A str is one key.
    properties : mapping of str to str, optional
        Keep their order, after TAGS and KEYS, and go to disk in it. A value None is left out.
    flag, sys_flag, reconsume_times : int
        As on disk; the two IPv6 bits of SYSFLAG follow from the hosts.
    born_timestamp_ms : int, optional
        Milliseconds since the epoch; the store timestamp when None.
    born_host, store_host : str, optional
        ``"ip:port"`` or ``"[v6]:port"``; ``127.0.0.1:0`` when None.
    prepared_transaction_offset : int
        Phy offset of the half message for a commit record.

    Raises
    ------
    ValueError
        A key with a space in it, text with the separators 0x01 or 0x02, `tags` or `keys` given twice with different
        values, a host that is none.
    """

    __slots__ = (
        "body",
        "born_host",
        "born_timestamp_ms",
        "flag",
        "prepared_transaction_offset",
        "properties",
        "queue_id",
        "reconsume_times",
        "store_host",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
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
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"topic is a {type(topic).__name__}, expected a str")
        self.topic = topic
        self.body = body
        self.queue_id = queue_id
        self.properties = _all_properties(tags, keys, properties)
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_timestamp_ms = born_timestamp_ms
        self.born_host = born_host or DEFAULT_HOST
        self.store_host = store_host or DEFAULT_HOST
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        pack_host(self.born_host)
        pack_host(self.store_host)

    @property
    def tags(self) -> str | None:
        """The TAGS property."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """The words of the KEYS property."""
        return tuple(word for word in self.properties.get("KEYS", "").split(" ") if word)

    def __repr__(self) -> str:
        return (
            f"Message({self.topic!r}, <{len(self.body)} bytes>, queue_id={self.queue_id}, "
            f"properties={self.properties!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable


def _all_properties(
    tags: str | None, keys: str | Iterable[str], properties: Mapping[str, str | None] | None
) -> dict[str, str]:
    words = tuple(filter(None, (keys,))) if isinstance(keys, str) else tuple(keys)
    for word in words:
        if " " in word or not word:
            raise ValueError(f"key {word!r}: a key is a word without spaces, KEYS is split on them")
    sugar = {"TAGS": tags or None, "KEYS": " ".join(words) or None}
    merged = {name: value for name, value in sugar.items() if value is not None}
    for name, value in (properties or {}).items():
        if value is None:
            continue
        if merged.get(name, value) != value:
            raise ValueError(f"{name} is given twice: {merged[name]!r} and {value!r} in properties")
        merged[name] = value
    return merged


@lru_cache(maxsize=4096)
def pack_host(text: str) -> bytes:
    """Address bytes and 4-byte port (big-endian) of ``"ip:port"`` or ``"[v6]:port"``.

    Raises
    ------
    ValueError
        The text is neither.
    """
    address, separator, port = text.rpartition(":")
    bracketed = address.startswith("[") and address.endswith("]")
    try:
        packed = ipaddress.ip_address(address[1:-1] if bracketed else address).packed
        number = int(port).to_bytes(4, "big", signed=True)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"host {text!r}: expected 'ip:port' or '[v6]:port'") from error
    if not separator or bracketed != (len(packed) == 16):
        raise ValueError(f"host {text!r}: expected 'ip:port' or '[v6]:port'")
    return packed + number
