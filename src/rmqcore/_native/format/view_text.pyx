"""Text of a MessageView: all its values by name, and its repr."""

LINE = 99  # characters that a repr may have
VALUES = (
    "phy_offset", "msg_size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "sys_flag", "born_timestamp_ms",
    "born_host", "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset", "body", "topic",
    "properties", "tags", "keys", "uniq_key", "msg_id", "tags_code",
)
"""The values of a message, in the order of the fields of a record, then what follows from them."""


def values_of(view):
    """All values by their names; `keys` as a list, as JSON gives it back."""
    found = {name: getattr(view, name) for name in VALUES}
    found["keys"] = list(found["keys"])
    return found


def line_of(view):
    """Where the message is and what it holds, as much of it as a line takes."""
    tags, keys, most = view.tags, " ".join(view.keys), LINE - 1
    text = f"<MessageView {clipped(view.topic, 20)}/{view.queue_id}@{view.queue_offset} phy_offset={view.phy_offset}"
    size = f" body={view.body_size:,} bytes"
    for part in (f" tags={clipped(tags, 12)}" if tags else "", f" keys={clipped(keys, 16)}" if keys else ""):
        if len(text) + len(part) + len(size) <= most:
            text += part
    text += size
    room = most - len(text) - 2
    if room >= 8:
        text += f": {clipped(repr(view.body_start(LINE)), room)}"
    return text + ">"


cdef str clipped(str text, Py_ssize_t most):
    """A text that takes one line, its end left out where it is long."""
    if not text.isprintable():
        text = repr(text)[1:-1]
    return text if len(text) <= most else text[:most - 1] + "…"
