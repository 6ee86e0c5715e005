"""Conditions for the answer of a put: whether its message waits, and the number of replicas that must have it."""

from __future__ import annotations

from collections.abc import Mapping

from rmqcore.config import MessageStoreConfig
from rmqcore.vocabulary.properties import WAIT

MASTER_ALONE = 1


def waits(properties: Mapping[str, str]) -> bool:
    """Return whether a message waits for the disk (SYNC_FLUSH) and for followers: a producer can turn that off.

    Notes
    -----
    Source: RocketMQ 5.5.0 Message#isWaitStoreMsgOK.
    """
    return properties.get(WAIT, "true").lower() == "true"


def replicas_needed(config: MessageStoreConfig) -> int:
    """Return the number of replicas, this store included, that must hold a message that waits.

    For a SYNC_MASTER this is `in_sync_replicas`.

    `MASTER_ALONE`: a put waits for no follower. This is the result for any other `broker_role`, with
    `duplication_enable`, and with the default ``in_sync_replicas=1``.

    Notes
    -----
    Java's modes with a group of brokers or a controller (``enableSlaveActingMaster``, ``enableControllerMode``) are not
    supported: no put is refused because too few replicas are in sync.

    Source: RocketMQ 5.5.0 CommitLog#needHandleHA, #asyncPutMessage, #handleHA.
    """
    if config.broker_role != "SYNC_MASTER" or config.duplication_enable:
        return MASTER_ALONE
    return max(config.in_sync_replicas, MASTER_ALONE)
