"""Result of a handler for a message."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class ConsumeStatus(StrEnum):
    """Outcome of a handler. Source: RocketMQ 5.5.0 ConsumeConcurrentlyStatus."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
