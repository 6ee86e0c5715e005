"""What a master answers that waits for followers."""

from __future__ import annotations

from rmqcore.config import MessageStoreConfig
from rmqcore.status import PutMessageStatus

ALONE = 1  # replicas that are in sync: the master itself. No follower connects to this release.


def replica_status(config: MessageStoreConfig) -> PutMessageStatus:
    """Give the status of a put that waits for followers, where none is connected.

    FLUSH_SLAVE_TIMEOUT: the message is stored, and the answer comes after ``slave_timeout``. IN_SYNC_REPLICAS_NOT_ENOUGH: nothing
    is stored. PUT_OK: no follower is waited for.

    Notes
    -----
    ``enableControllerMode`` and ``enableSlaveActingMaster`` are settings of the broker, not of the store: they come from a
    ``broker.conf``.

    Source: RocketMQ 5.5.0 CommitLog#needHandleHA, #asyncPutMessage, #calcNeedAckNums, #handleHA,
    GroupTransferService#doWaitTransfer.
    """
    if config.broker_role != "SYNC_MASTER" or config.duplication_enable:
        return PutMessageStatus.PUT_OK
    needed = config.in_sync_replicas
    if _is_on(config, "enableControllerMode"):
        if config.min_in_sync_replicas > ALONE:
            return PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
        if config.all_ack_in_sync_state_set:
            return PutMessageStatus.PUT_OK  # the master is all of the set
    elif _is_on(config, "enableSlaveActingMaster"):
        if config.enable_auto_in_sync_replicas:
            needed = max(min(needed, ALONE), config.min_in_sync_replicas)
        enough = needed <= ALONE
        return PutMessageStatus.PUT_OK if enough else PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
    return PutMessageStatus.FLUSH_SLAVE_TIMEOUT if needed > ALONE else PutMessageStatus.PUT_OK


def _is_on(config: MessageStoreConfig, key: str) -> bool:
    return config.extra.get(key, "").lower() == "true"
