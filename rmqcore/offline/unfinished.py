"""Whether the newest record of a live log is whole, as far as its bytes tell."""

from __future__ import annotations

from rmqcore._native.codec import MessageView
from rmqcore.sysflag import BORNHOST_V6, STOREHOST_V6

BODY_V4 = 88
V6_EXTRA = 12
MAGIC_V2 = -626843477


def lacks_its_end(view: MessageView) -> bool:
    """Whether a record at the end of a log, sound by place, lengths and CRC, still waits for its last bytes.

    Topic and properties come last, and no CRC covers them unless the properties hold one. They are text, and where nothing
    was written yet lie zeros: a zero at the end is one of those.
    """
    raw = view.raw
    hosts_v6 = bool(view.sys_flag & BORNHOST_V6) + bool(view.sys_flag & STOREHOST_V6)
    body_end = BODY_V4 + V6_EXTRA * hosts_v6 + len(view.body)
    topic = body_end + (2 if view.magic == MAGIC_V2 else 1)
    topic_end = topic + int.from_bytes(raw[body_end:topic])
    last = raw[topic_end + 2 :] or raw[topic:topic_end]
    return last.endswith(b"\0") or view.prop_crc_ok() is False
