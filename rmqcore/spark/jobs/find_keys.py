"""Choice of the rows of a batch that have one of the wanted keys or ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def wanted_rows(
    batch: pa.RecordBatch, keys: frozenset[str], ids: frozenset[str], known: frozenset[int]
) -> pa.RecordBatch:
    """Return the rows that have a wanted key or id.

    The native filter does not distinguish ids from keys: it accepts a message whose KEYS hold the id of another
    message, as the KEYS of traces do.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        With ``uniq_key``, ``keys`` and ``phy_offset``; each row has one of the keys or ids in the first two.
    keys : frozenset of str
        Wanted as a word of KEYS or as UNIQ_KEY.
    ids : frozenset of str
        Wanted as UNIQ_KEY.
    known : frozenset of int
        CommitLog offsets of records that are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = np.ones(batch.num_rows, np.bool_)
    if ids:
        wanted = pa.array(sorted(keys | ids), pa.string())
        found = pc.is_in(batch.column("uniq_key"), value_set=wanted).to_numpy(zero_copy_only=False)
        if keys:
            found |= _has_word(batch.column("keys"), keys)
    if known:
        places = np.fromiter(known, np.int64, len(known))
        found &= ~np.isin(batch.column("phy_offset").to_numpy(), places)
    return batch if found.all() else batch.filter(pa.array(found))


def _has_word(
    joined: pa.Array, words: frozenset[str]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the texts that hold one of the words, separated by spaces."""
    import pyarrow as pa
    import pyarrow.compute as pc

    listed = pc.split_pattern(joined, " ")
    hits = pc.is_in(listed.flatten(), value_set=pa.array(sorted(words), pa.string()))
    rows = pc.list_parent_indices(listed).to_numpy()[hits.to_numpy(zero_copy_only=False)]
    found = np.zeros(len(joined), np.bool_)
    found[rows] = True
    return found
