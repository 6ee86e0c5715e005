"""Topics and tags by the numbers that a scan gives them, which begin anew where there are very many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan.scan import ColumnScan

OTHERS = 0
"""The number of all topics that there is no memory for."""


class Names:
    """Topics by numbers that stay what they are, and the tags of a batch.

    Parameters
    ----------
    most, most_bytes : int
        Topics that are told apart, and the letters in them.

    Attributes
    ----------
    topics : list of str or None
        By number; None is `OTHERS`.
    tags : list of str
        By ``tag_id``, until the scan numbers them anew.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.topics: list[str | None] = [None]
        self.tags: list[str] = []
        self._numbers: dict[str, int] = {}
        self._most, self._bytes_left = most, most_bytes
        self._numbering = 0
        self._of_topic_id: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def update(self, scan: ColumnScan) -> None:
        """Learn the topics and tags of the batch that the scan has just given."""
        if scan.numbering != self._numbering:
            self._numbering = scan.numbering
            self._of_topic_id = np.empty(0, np.int64)
            self.tags = []
        new = scan.topics(len(self._of_topic_id))
        if new:
            numbers = np.array([self._number(name) for name in new], np.int64)
            self._of_topic_id = np.concatenate([self._of_topic_id, numbers])
        self.tags += scan.tags(len(self.tags))

    def numbers(self, topic_id: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The numbers of the topics of a batch."""
        return self._of_topic_id[topic_id]

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is not None:
            return number
        if len(self._numbers) >= self._most or self._bytes_left < len(name):
            return OTHERS
        self._bytes_left -= len(name)
        self._numbers[name] = number = len(self.topics)
        self.topics.append(name)
        return number
