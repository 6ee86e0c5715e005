"""Which brokers do not answer: one log line when a broker goes and one when it is back, however many queues wait for it."""

from __future__ import annotations

import logging

from rmqcore.errors import ClientError

_LOG = logging.getLogger("rmqcore.client")


class AwayBrokers:
    """The brokers that a consumer cannot read from now. Used by its loop's thread only."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def gone(self, broker_name: str, error: ClientError) -> None:
        """Note that a broker does not answer."""
        if broker_name not in self._names:
            self._names.add(broker_name)
            _LOG.warning("broker %s does not answer, pulls are tried again: %s", broker_name, error)

    def back(self, broker_name: str) -> None:
        """Note that a broker answers."""
        if broker_name in self._names:
            self._names.discard(broker_name)
            _LOG.warning("broker %s answers again", broker_name)
