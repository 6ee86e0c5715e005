"""Which queues a member of a group reads: all members work it out for themselves, from the same lists.

Source: RocketMQ 5.5.0 AllocateMessageQueueAveragely.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqcore.client.messages.message_queue import MessageQueue


def allocate_averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Give a member's run of the queues: none where it is no member.

    Parameters
    ----------
    client_id : str
    queues, client_ids : sequence
        Of the topic and of the group, each once, sorted.
    """
    if client_id not in client_ids:
        return []
    index, members = client_ids.index(client_id), len(client_ids)
    each, rest = divmod(len(queues), members)
    # The first `rest` members have one more; where there are more members than queues the others have none.
    start = index * each + min(index, rest)
    return list(queues[start : start + each + (index < rest)])
