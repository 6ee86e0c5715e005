"""The logger of brokers as each test found it: one that a test leaves as a crash does limits the lines of the next tests too."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def limits_of_crashed_brokers_end() -> Iterator[None]:
    logger = logging.getLogger("rmqcore.broker")
    before = list(logger.filters)
    yield
    logger.filters[:] = before
