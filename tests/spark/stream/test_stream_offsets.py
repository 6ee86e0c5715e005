"""Offsets in checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.spark.stream.offsets import StreamOffset

OFFSETS = st.integers(0, (1 << 63) - 1)
QUEUES = st.dictionaries(st.integers(0, 1 << 30), OFFSETS, min_size=1)
BROKERS = st.dictionaries(st.text(), QUEUES, min_size=1)


@given(st.dictionaries(st.text(), OFFSETS), st.dictionaries(st.text(), BROKERS))
def test_what_is_written_is_read(
    stores: dict[str, int], queues: dict[str, dict[str, dict[int, int]]]
) -> None:
    written = json.loads(json.dumps(StreamOffset(stores, queues).as_dict()))
    assert StreamOffset.parse(written) == StreamOffset(stores, queues)


def test_the_text_in_a_checkpoint_stays_as_it_is() -> None:
    """Checkpoints outlive releases."""
    written = StreamOffset({"broker-b": 5, "broker-a": 1 << 40})
    assert (
        json.dumps(written.as_dict())
        == '{"v": 1, "stores": {"broker-a": 1099511627776, "broker-b": 5}}'
    )


@pytest.mark.parametrize(
    "offset",
    [{}, {"v": 2, "stores": {}}, {"v": 1}, {"v": 1, "stores": [1]}, {"stores": {"a": 1}}],
)
def test_anything_else_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a stream offset of version 1, found"):
        StreamOffset.parse(offset)


@pytest.mark.parametrize("phy_offset", [-1, "5", None, True, 1.0, 1 << 63])
def test_a_store_without_a_commitlog_offset_is_refused(phy_offset: object) -> None:
    with pytest.raises(ValueError, match="stream offset of store 'a' is"):
        StreamOffset.parse({"v": 1, "stores": {"a": phy_offset}})


@pytest.mark.parametrize("queues", [5, {"t": 5}, {"t": {"a": {"x": 1}}}, {"t": {"a": {"0": "1"}}}])
def test_queues_that_somebody_edited_are_refused(queues: object) -> None:
    """The error was that an int has no items: nothing led to the checkpoint."""
    with pytest.raises(ValueError, match="queues of a stream offset are"):
        StreamOffset.parse({"v": 1, "stores": {}, "queues": queues})
