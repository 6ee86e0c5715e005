"""PutManyResult: status and place of each of many messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmqcore._native.put.put_result import STATUSES, PutResult
from rmqcore.errors import PutFailedError
from rmqcore.shown.html_tables import SHOWN_ROWS, items_html, values_html
from rmqcore.vocabulary.status import PutMessageStatus, meaning

_STATUS_OF_CODE = np.array(STATUSES, dtype=object)


@dataclass(frozen=True, slots=True, eq=False)
class PutManyResult:
    """Results of a `put_many` or `put_arrow`, one per message in the given order.

    Attributes
    ----------
    statuses : ndarray of PutMessageStatus
    phy_offsets : ndarray of int64
        CommitLog offset of each record; -1: not stored.
    queue_offsets : ndarray of int64
        Index in (topic, queue_id); -1: not stored, 0 for prepared and rollback types.
    store_timestamps_ms : ndarray of int64
        Milliseconds since the epoch; 0: not stored.
    """

    statuses: NDArray[Any]
    phy_offsets: NDArray[np.int64]
    queue_offsets: NDArray[np.int64]
    store_timestamps_ms: NDArray[np.int64]
    end_offset: int = 0
    """CommitLog offset at or behind the end of the last record stored; 0: no record was stored."""
    refused_at: int = -1
    """Index of the first message or Arrow row that is invalid or breaks a limit; -1: all are valid."""
    refusal: str | None = None
    """What is wrong with that message: its index, the limit, what was found, and the setting."""
    refused_column: str | None = None
    """Arrow column of the invalid value; None: a `Message`, or a row that breaks a limit as a whole."""
    column_reason: str | None = None
    """What is wrong with the value in that column."""

    @classmethod
    def of_results(cls, results: list[PutResult]) -> PutManyResult:
        """Gather the results of single puts."""
        refused_at = next((at for at, result in enumerate(results) if not result.stored), -1)
        return cls(
            np.array([result.status for result in results], dtype=object),
            np.array([result.phy_offset for result in results], dtype=np.int64),
            np.array([result.queue_offset for result in results], dtype=np.int64),
            np.array([result.store_timestamp_ms for result in results], dtype=np.int64),
            max((r.phy_offset + r.msg_size for r in results if r.stored), default=0),
            refused_at,
            f"message {refused_at}: {results[refused_at].reason}" if refused_at >= 0 else None,
        )

    @classmethod
    def of_codes(
        cls,
        codes: NDArray[np.int8],
        phy_offsets: NDArray[np.int64],
        queue_offsets: NDArray[np.int64],
        store_timestamps_ms: NDArray[np.int64],
        end_offset: int,
        refused_at: int,
        refusal: str | None,
        *,
        refused_column: str | None = None,
        column_reason: str | None = None,
    ) -> PutManyResult:
        """Make a result from the values of the native append."""
        statuses = _STATUS_OF_CODE[codes]
        return cls(
            statuses,
            phy_offsets,
            queue_offsets,
            store_timestamps_ms,
            end_offset,
            refused_at,
            refusal,
            refused_column,
            column_reason,
        )

    def with_status(self, status: PutMessageStatus) -> PutManyResult:
        """Return the same result, with another status for every message that was stored."""
        statuses = self.statuses.copy()
        statuses[self.phy_offsets >= 0] = status
        return replace(self, statuses=statuses)

    @property
    def count(self) -> int:
        """Messages stored."""
        return int(np.count_nonzero(self.phy_offsets >= 0))

    def __len__(self) -> int:
        return len(self.phy_offsets)

    def raise_for_status(self) -> None:
        """Raise PutFailedError for the first message whose status is not PUT_OK."""
        bad = np.flatnonzero(self.statuses != PutMessageStatus.PUT_OK)
        if not len(bad):
            return
        place = bad[0]
        status = self.statuses[place]
        status_alone = f"message {place}: {meaning(status)}"
        reason = self.refusal if place == self.refused_at else status_alone
        raise PutFailedError(status.name, bool(self.phy_offsets[place] >= 0), reason)

    def _repr_html_(self) -> str:
        items = [
            {
                "message": place,
                "status": self.statuses[place],
                "phy_offset": int(self.phy_offsets[place]),
                "queue_offset": int(self.queue_offsets[place]),
                "store_timestamp_ms": int(self.store_timestamps_ms[place]),
            }
            for place in range(min(len(self), SHOWN_ROWS))
        ]
        values = {"stored": self.count, "refusal": self.refusal}
        return "\n".join(
            [values_html("PutManyResult", values), items_html("messages", items, len(self))]
        )

    def __repr__(self) -> str:
        return f"<PutManyResult: {self.count} of {len(self)} messages stored>"
