"""The queues that each member of a group reads: all members compute them from the same lists.

Source: RocketMQ 5.5.0 AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

_Q = TypeVar("_Q")


def allocate_averagely(client_id: str, queues: Sequence[_Q], client_ids: Sequence[str]) -> list[_Q]:
    """Return a member's run of the queues; an empty list if it is not a member.

    Parameters
    ----------
    client_id : str
    queues, client_ids : sequence
        The queues of the topic and the members of the group, sorted, without duplicates.
    """
    if client_id not in client_ids:
        return []
    index, members = client_ids.index(client_id), len(client_ids)
    each, rest = divmod(len(queues), members)
    # The first `rest` members get one more; if members outnumber queues, the others get none.
    start = index * each + min(index, rest)
    return list(queues[start : start + each + (index < rest)])


def allocate_averagely_by_circle(
    client_id: str, queues: Sequence[_Q], client_ids: Sequence[str]
) -> list[_Q]:
    """Return every n-th queue for one of n members; the parameters are those of `allocate_averagely`."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


STRATEGIES: Mapping[str, Callable[[str, Sequence[_Q], Sequence[str]], list[_Q]]] = MappingProxyType(
    {"AVG": allocate_averagely, "AVG_BY_CIRCLE": allocate_averagely_by_circle}
)
"""By the names that clients send: those that a broker shares out by."""
