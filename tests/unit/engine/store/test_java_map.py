"""Java's HashMap order, as RocketMQ 5.5.0 wrote it."""

from __future__ import annotations

from rmqcore.engine.store.light_put import in_map_order


def test_the_order_of_a_table_of_128() -> None:
    """A broker wrote this order; UNIQ_KEY and CLUSTER share a bucket, where the name that is put first stays first."""
    order = ["MSG_REGION", "UNIQ_KEY", "CLUSTER", "TAGS", "KEYS", "WAIT", "a", "TRACE_ON"]
    shuffled = ["UNIQ_KEY", "a", "TRACE_ON", "CLUSTER", "WAIT", "KEYS", "MSG_REGION", "TAGS"]
    assert list(in_map_order(dict.fromkeys(shuffled, "x"))) == order
    swapped = ["CLUSTER", *(name for name in shuffled if name != "CLUSTER")]
    assert list(in_map_order(dict.fromkeys(swapped, "x")))[1:3] == ["CLUSTER", "UNIQ_KEY"]


def test_the_table_doubles_over_96_entries() -> None:
    names = [chr(ord("a") + i) for i in range(20)] + [str(i) for i in range(76)]
    small = list(in_map_order(dict.fromkeys(names, "x")))
    assert small == sorted(names, key=lambda name: bucket(name, 128))
    big = list(in_map_order(dict.fromkeys([*names, "more"], "x")))
    assert big == sorted([*names, "more"], key=lambda name: bucket(name, 256))
    assert big != [*small, "more"]


def bucket(name: str, capacity: int) -> int:
    code = 0
    for unit in name:
        code = (31 * code + ord(unit)) % (1 << 32)
    return (code ^ code >> 16) % capacity
