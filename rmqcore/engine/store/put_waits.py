"""Conditions for the answer of a put: does its message wait, and how many replicas must have it."""

from __future__ import annotations

from collections.abc import Mapping

from rmqcore.config import MessageStoreConfig
from rmqcore.vocabulary.properties import WAIT

MASTER_ALONE = 1


def waits(properties: Mapping[str, str]) -> bool:
    """Return whether a message waits for the disk (SYNC_FLUSH) and for followers: its producer can say that it does not.

    Notes
    -----
    Source: RocketMQ 5.5.0 Message#isWaitStoreMsgOK.
    """
    return properties.get(WAIT, "true").lower() == "true"


def replicas_needed(config: MessageStoreConfig) -> int:
    """Return how many replicas, this store among them, must hold a message that waits: `in_sync_replicas` of a SYNC_MASTER.

    `MASTER_ALONE`: a put waits for no follower. So it is with any other `broker_role`, with `duplication_enable`, and with the
    default ``in_sync_replicas=1``.

    Notes
    -----
    Java's modes with a group of brokers or a controller (``enableSlaveActingMaster``, ``enableControllerMode``) are not served:
    no put is refused because too few replicas are in sync.

    Source: RocketMQ 5.5.0 CommitLog#needHandleHA, #asyncPutMessage, #handleHA.
    """
    if config.broker_role != "SYNC_MASTER" or config.duplication_enable:
        return MASTER_ALONE
    return max(config.in_sync_replicas, MASTER_ALONE)
