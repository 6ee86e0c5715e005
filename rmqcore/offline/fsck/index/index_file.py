"""Findings about an IndexFile itself: its header, slots and chains.

An entry too many in a chain hides no message, because its hash tells that it belongs to another key; Java leaves such
chains when two files were made in the same millisecond and so share a name. An entry that is missing from its chain
cannot be found, and a chain that does not run down may never end.
"""

from __future__ import annotations

from rmqcore.disk.index.index_check import MOST_SLOTS, two_versions_counted
from rmqcore.offline.fsck.findings import ERROR, INFO, WARNING, Findings
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.index.index_files import IndexFileReader

KIND_OF_FIELD = {
    "prevIndex": "index_chain",
    "slot": "index_chain",
    "keyHash": "index_entry",
    "timeDiff": "index_entry",
}
CHANGING = ("slot", "hashSlotCount", "indexCount", "endPhyOffset", "endTimestamp")
"""Fields that a put changes one after the other: in a file that is being written they may disagree."""


def check_file(reader: IndexFileReader, findings: Findings, *, live: bool) -> None:
    """Check a file; with `live` a broker may be writing it. `check_index_files` tells of an empty one."""
    if reader.size == 0:
        return
    path = file_path(reader)
    if (reader.slot_count or 0) > MOST_SLOTS:
        findings.add(
            "index_header",
            WARNING,
            path,
            f"its {reader.slot_count} hash slots were not compared with its entries",
            field="maxHashSlotNum",
            expected=f"at most {MOST_SLOTS}",
            found=reader.slot_count,
        )
        return
    if (problem := reader.problem()) and reader.header.index_count <= 1:
        findings.add(
            "index_header",
            WARNING if live else ERROR,
            path,
            f"{problem}: queries find none of them",
            field="indexCount",
            expected="the number of entries",
            found=reader.header.index_count,
        )
        return
    outcome = reader.check(limit=findings.limit)
    changed = (
        live and IndexFileReader(reader.path, slot_count=reader.slot_count).header != reader.header
    )
    if not outcome.checked and reader.header.index_count > 1:
        findings.add(
            "index_header",
            ERROR,
            path,
            f"no number of hash slots fits the file's {reader.size} bytes and its entries",
            field="file size",
            expected="40 + 4 a slot + 20 an entry",
            found=reader.size,
        )
    for finding in outcome.findings:
        index, field, expected, found = finding
        if field == "phyOffset":
            continue  # out of order; the comparison with its record tells whether it is right
        if changed and field in CHANGING:
            continue
        kind = KIND_OF_FIELD.get(field, "index_header")
        harmless = expected == 0 and (
            field == "slot" or (field == "prevIndex" and 0 <= found < index)
        )
        harmless |= field in ("endTimestamp", "hashSlotCount") or (live and field in CHANGING)
        severity = WARNING if harmless else ERROR
        why = ""
        if two_versions_counted(finding, reader.header.index_count):
            severity, why = INFO, "; RocketMQ before 4.7.1 counts a slot for each entry"
        what = {
            "index_header": "",
            "index_chain": f"entry {index}: ",
            "index_entry": f"entry {index}: ",
        }[kind]
        what = f"slot {index}: " if field == "slot" else what
        findings.add(
            kind,
            severity,
            path,
            f"{what}{field} is {found}, expected {expected}{why}",
            field=field,
            expected=expected,
            found=found,
        )
    left = outcome.finding_count - len(outcome.findings)
    if left:
        findings.add("index_chain", WARNING, path, f"{left} more in this file", count=left)


def check_ends(reader: IndexFileReader, findings: Findings, log: LogAudit) -> None:
    """Check that the header's times are the store times of the first and the last message in the file."""
    header = reader.header
    ends = (
        ("beginTimestamp", header.begin_timestamp_ms, header.begin_phy_offset),
        ("endTimestamp", header.end_timestamp_ms, header.end_phy_offset),
    )
    for field, found, phy_offset in ends:
        view = log.record(phy_offset)
        if view is not None and view.store_timestamp_ms != found:
            findings.add(
                "index_header",
                ERROR,
                file_path(reader),
                f"{field} is {found}, the message there has {view.store_timestamp_ms}",
                phy_offset=phy_offset,
                field=field,
                expected=view.store_timestamp_ms,
                found=found,
            )


def file_path(reader: IndexFileReader) -> str:
    """Return the path of an index file as findings name it."""
    return f"index/{reader.path.name}"
