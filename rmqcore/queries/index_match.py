"""Which entries of an index match the log: an entry must name the place of a record and a key of that record.

The results are arrays: fsck, an open after a crash and the scrub of an open store compare millions of entries by one
rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqcore.vocabulary.units import INT_MAX

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Match:
    """Keys of records beside entries of an index.

    Attributes
    ----------
    rows : array of int64
        For each entry the row of its record; -1 when no record has this key.
    on_record : array of bool
        For each entry whether it names the place of a record.
    missing : array of int64
        Positions in the keys of all records whose keys have no entry.
    """

    rows: Int64
    on_record: Flags
    missing: Int64


def match_entries(
    phy_offsets: Int64,
    key_offsets: Int32,
    key_hashes: Int32,
    entry_phy_offsets: Int64,
    entry_hashes: Int32,
) -> Match:
    """Compare the keys of records with the entries of their part of the log.

    A repeated entry is correct: Java puts the newest message again when it is restarted.

    Parameters
    ----------
    phy_offsets : array of int64
        CommitLog offsets of the records, ascending.
    key_offsets, key_hashes : array of int32
        Record i has the keys ``key_hashes[key_offsets[i]:key_offsets[i + 1]]``.
    entry_phy_offsets, entry_hashes : array
        CommitLog offsets and key hashes of the entries.
    """
    rows: Int64 = np.repeat(np.arange(len(phy_offsets)), np.diff(key_offsets))
    if np.array_equal(entry_hashes, key_hashes) and np.array_equal(
        entry_phy_offsets, phy_offsets[rows]
    ):
        return Match(rows, np.ones(len(rows), bool), np.empty(0, np.int64))
    if not len(phy_offsets):
        nothing = np.zeros(len(entry_hashes), bool)
        return Match(np.full(len(nothing), -1), nothing, np.empty(0, np.int64))
    at = np.minimum(np.searchsorted(phy_offsets, entry_phy_offsets), len(phy_offsets) - 1)
    on_record: Flags = phy_offsets[at] == entry_phy_offsets
    wanted = (rows << 31) | key_hashes
    found = np.where(on_record & (entry_hashes >= 0), (at << 31) | entry_hashes, -1)
    fits = holds(np.sort(wanted), found)
    missing = np.flatnonzero(~holds(np.sort(found), wanted))
    return Match(np.where(fits, at, -1), on_record, missing)


def are_tags(missing: Int64, key_offsets: Int32, tags_codes: Int64, rows: Int64) -> Flags:
    """Return which of the missing keys are tags: a tag is the last key of its record. `rows` are their records."""
    are: Flags = (missing == key_offsets[rows + 1] - 1) & (tags_codes[rows] != 0)
    return are


def time_diffs(store_timestamps_ms: Int64, begin_timestamp_ms: int) -> Int64:
    """Return TIMEDIFF of messages: whole seconds since a start, never negative; 0 if the start is not a time.

    Notes
    -----
    Source: RocketMQ 5.5.0 IndexFile#putKey.
    """
    if begin_timestamp_ms <= 0:
        return np.zeros(len(store_timestamps_ms), np.int64)
    with np.errstate(over="ignore"):
        diff_ms: Int64 = store_timestamps_ms - np.int64(begin_timestamp_ms)
    return np.where(diff_ms < 0, 0, np.clip(diff_ms // 1000, 0, INT_MAX))


def holds(ordered: Int64, values: Int64) -> Flags:
    """Return which of `values` are in `ordered`; `numpy.isin` takes ten times as long."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    found: Flags = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found
