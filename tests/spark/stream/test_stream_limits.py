"""Limits of a batch, and their sharing between stores."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqcore.spark.stream.limits import Allowance, share_out, turn


class Backlog:
    """A store of records of given sizes."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.taken = 0

    def advance(self, allowance: Allowance) -> None:
        while not allowance.spent and self.taken < len(self.sizes):
            allowance.take(1, self.sizes[self.taken])
            self.taken += 1

    @property
    def taken_bytes(self) -> int:
        return sum(self.sizes[: self.taken])


BACKLOGS = st.lists(st.lists(st.integers(91, 5000), max_size=30), min_size=1, max_size=6)


@given(BACKLOGS, st.integers(1, 100), st.integers(0, 1 << 32))
def test_records_are_shared_to_the_last_one(sizes: list[list[int]], limit: int, first: int) -> None:
    stores = [Backlog(record_sizes) for record_sizes in sizes]
    share_out(stores, Allowance(records=limit), first)
    assert sum(store.taken for store in stores) == min(limit, sum(map(len, sizes)))
    for store in stores:
        assert store.taken >= min(len(store.sizes), limit // len(stores))


@given(BACKLOGS, st.integers(1, 20_000), st.integers(0, 1 << 32))
def test_bytes_are_shared_and_no_store_waits(
    sizes: list[list[int]], limit: int, first: int
) -> None:
    stores = [Backlog(record_sizes) for record_sizes in sizes]
    share_out(stores, Allowance(byte_count=limit), first)
    taken = sum(store.taken_bytes for store in stores)
    everything = sum(map(sum, sizes))
    assert taken >= min(limit, everything)
    # The record that reaches a limit is taken: each store may go past its share by less than one record.
    assert taken < limit + sum(max(store.sizes, default=0) for store in stores) or taken == 0
    for store in stores:
        assert store.taken_bytes >= min(sum(store.sizes), limit // len(stores))


@given(BACKLOGS, st.integers(1, 40), st.integers(1, 20_000))
def test_with_both_limits_the_first_one_reached_ends_the_batch(
    sizes: list[list[int]], records: int, byte_count: int
) -> None:
    stores = [Backlog(record_sizes) for record_sizes in sizes]
    share_out(stores, Allowance(records, byte_count))
    taken = sum(store.taken for store in stores)
    assert taken <= records
    assert taken >= min(1, sum(map(len, sizes)))
    done = all(store.taken == len(store.sizes) for store in stores)
    assert done or taken == records or sum(store.taken_bytes for store in stores) >= byte_count


def test_without_a_limit_everything_is_taken() -> None:
    stores = [Backlog([100] * 7), Backlog([]), Backlog([5000])]
    share_out(stores, Allowance())
    assert [store.taken for store in stores] == [7, 0, 1]


def test_who_begins_changes_from_batch_to_batch() -> None:
    """With a limit of one record and two busy stores of equal records, one store was served for ever."""
    offsets = {"a": 0, "b": 0}
    served = []
    for _ in range(64):
        first = turn(offsets) % 2
        served.append(first)
        offsets["ab"[first]] += 128
    assert 16 < sum(served) < 48
