"""Properties that no RocketMQ wrote: NULs, or bytes without a name and a value. No checksum covers them, unless `__CRC32#` is on.

Queue and index of such a record may have been made from it, so that nothing else disagrees (apache/rocketmq#7437).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rmqcore._native.format.codec import MessageView, property_bytes
from rmqcore.offline.fsck.findings import WARNING, Findings
from rmqcore.offline.fsck.log_batch import LogBatch

MOST_A_BATCH = 1000
"""Records of a batch that are read once more: a client's message has a UNIQ_KEY, and a damaged one stands out."""
SHOWN_BYTES = 16
_SEPARATOR = b"\2"


def check_property_areas(
    batch: LogBatch,
    findings: Findings,
    record: Callable[[int], MessageView | None],
    file_name: Callable[[int], str],
) -> None:
    """Find records without a tag and a key whose properties hold bytes all the same, but no pair that RocketMQ writes."""
    keys = np.diff(batch.key_offsets)
    if len(keys) != len(batch):
        return
    for row in np.flatnonzero((keys == 0) & (batch.tags_code == 0))[:MOST_A_BATCH].tolist():
        view = record(int(batch.phy_offset[row]))
        area = b"" if view is None else property_bytes(view)
        if view is None or not area.strip(_SEPARATOR) or (b"\0" not in area and b"\1" in area):
            continue  # separators alone are no property: `salvage` makes records of a DLedger log longer by them
        findings.add(
            "properties",
            WARNING,
            file_name(view.phy_offset),
            f"{len(area)} bytes of properties of {view.topic} queue {view.queue_id} offset {view.queue_offset} are not a "
            f"list of names and values: {area.count(0)} of them are NUL",
            phy_offset=view.phy_offset,
            field="PROPERTIES",
            expected="NAME 0x01 VALUE 0x02",
            found=area[:SHOWN_BYTES].hex(),
        )
