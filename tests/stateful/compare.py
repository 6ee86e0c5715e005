"""The store against the model: everything that both can be asked, and every byte of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.oracle.store import Image, ModelStore, Put, read_image

from rmqcore.engine.store.store import MessageStore


def agree(what: str, got: Any, want: Any) -> None:
    """Both say the same; pytest does not look into this module's assertions."""
    assert got == want, f"{what}: the store has {got!r}, the model {want!r}"


def same_put(want: Put, got: Any) -> None:
    agree("status", got.status.name, want.status)
    if want.status != "PUT_OK":
        return
    names = "phy_offset", "queue_offset", "msg_size", "count", "msg_id", "store_timestamp_ms"
    for name in names:
        agree(name, getattr(got, name), getattr(want, name))


def same_puts(want: list[Put], got: Any) -> None:
    agree("statuses", [status.name for status in got.statuses], [put.status for put in want])
    agree("phy_offsets", got.phy_offsets.tolist(), [put.phy_offset for put in want])
    agree("queue_offsets", got.queue_offsets.tolist(), [put.queue_offset for put in want])
    times = got.store_timestamps_ms.tolist()
    agree("store_timestamps_ms", times, [put.store_timestamp_ms for put in want])


def same_offsets(model: ModelStore, store: MessageStore) -> None:
    agree("min_phy_offset", store.min_phy_offset, model.log.min_offset)
    agree("max_phy_offset", store.max_phy_offset, model.log.end)
    agree("flushed_phy_offset", store.flushed_phy_offset, model.flushed)
    agree("confirm_offset", store.confirm_offset, model.confirm_offset)
    agree("dispatch_behind_bytes", store.dispatch_behind_bytes, model.behind)
    known = {place: (q.min_offset, q.max_offset) for place, q in model.queues.items() if q.end}
    places = [place for place in store.queues() if store.max_offset(*place)]
    agree("queues", {p: (store.min_offset(*p), store.max_offset(*p)) for p in places}, known)
    assert {topic for topic, _ in known} <= set(store.topics())


def same_get(model: ModelStore, store: MessageStore, *ask: Any) -> None:
    topic, queue_id, offset, most, tags, max_bytes = ask
    want = model.get(*ask)
    with store.get(topic, queue_id, offset, most, tags=tags, max_bytes=max_bytes) as got:
        agree("status", got.status.name, want.status)
        for name in ("next_begin_offset", "min_offset", "max_offset", "buffer_total_size"):
            agree(name, getattr(got, name), getattr(want, name))
        agree("messages", tuple(view.phy_offset for view in got.messages), want.phy_offsets)
        for view in got.messages:
            same_view(model, view)


def same_view(model: ModelStore, view: Any) -> None:
    record = model.lookup(view.phy_offset)
    assert record is not None
    assert record.msg_size is not None
    raw = model.log.bytes_at(view.phy_offset, record.msg_size, model.log.end)
    agree("raw", bytes(view.raw), raw)
    agree("topic", view.topic.encode(), record.topic)
    agree("body", bytes(view.body), record.body)
    agree("msg_id", view.msg_id, record.msg_id)
    agree("tags_code", view.tags_code, record.tags_code)
    agree("properties", view.properties, record.property_map)


def same_lookup(model: ModelStore, store: MessageStore, phy_offset: int) -> None:
    view = store.lookup(phy_offset)
    agree("there is a record", view is not None, model.lookup(phy_offset) is not None)
    if view is None:
        return
    same_view(model, view)
    by_id = store.lookup_id(view.msg_id)
    assert by_id is not None
    agree("lookup_id", by_id.phy_offset, phy_offset)


def same_query(model: ModelStore, store: MessageStore, *ask: Any) -> None:
    topic, key, most, begin_ms, end_ms, index_type = ask
    want = model.query(*ask)
    got = store.query(topic, key, most, begin_ms, end_ms, index_type=index_type)
    agree("messages", [view.phy_offset for view in got.messages], want.phy_offsets)
    agree("newest time", got.index_last_update_timestamp_ms, want.last_timestamp_ms)
    agree("newest offset", got.index_last_update_phy_offset, want.last_phy_offset)


def directory(root: Path) -> Image:
    """What the model has of a directory: index files by their number, because their names are times."""
    image = read_image(root)
    kept = {p: d for p, d in image.items() if p.startswith(("commitlog/", "consumequeue/", "cut/"))}
    indexes = sorted(path for path in image if path.startswith("index/"))
    return kept | {f"index/{n}": image[path] for n, path in enumerate(indexes)}


def same_files(model: ModelStore, root: Path) -> None:
    want, got = model.image(), directory(root)
    agree("files that only one has", sorted(set(got) - set(want)), sorted(set(want) - set(got)))
    for name, data in want.items():
        at = first_difference(got[name], data)
        assert at < 0, f"{name} differs at {at}: {got[name][at : at + 40]!r} {data[at : at + 40]!r}"


def first_difference(got: bytes, want: bytes) -> int:
    if got == want:
        return -1
    pairs = enumerate(zip(got, want, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(got), len(want)))
