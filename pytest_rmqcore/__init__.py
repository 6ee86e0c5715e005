"""The pytest plugin of rmqcore: `rocketmq_broker`, a broker and name server of a test's own, and one for all tests of a run.

pytest loads it in every run where rmqcore is installed, so it imports nothing of rmqcore until a test asks for a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rmqcore.testing.served_broker import ServedBroker


@pytest.fixture
def rocketmq_broker_settings() -> Mapping[str, object]:
    """Keys of a ``broker.conf`` for `rocketmq_broker`; a test module that wants some has a fixture of this name."""
    return {}


@pytest.fixture
def rocketmq_broker(
    tmp_path_factory: pytest.TempPathFactory, rocketmq_broker_settings: Mapping[str, object]
) -> Iterator[ServedBroker]:
    """Yield a broker and a name server that run in one process of their own, with a new store, on free ports.

    It is a `rmqcore.testing.served_broker.ServedBroker`: ``namesrv``, ``address``, ``store``, ``create_topic(name, queues=4)``,
    ``messages(topic)``, ``kill()``, ``restart()``.
    """
    from rmqcore.testing.served_broker import ServedBroker

    folder = tmp_path_factory.mktemp("rocketmq")
    with ServedBroker(folder, rocketmq_broker_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def rocketmq_broker_session_settings() -> Mapping[str, object]:
    """Keys of a ``broker.conf`` for `rocketmq_broker_session`; a conftest.py that wants some has a fixture of this name."""
    return {}


@pytest.fixture(scope="session")
def rocketmq_broker_session(
    tmp_path_factory: pytest.TempPathFactory,
    rocketmq_broker_session_settings: Mapping[str, object],
) -> Iterator[ServedBroker]:
    """Yield a broker and a name server that all tests of a run share; with xdist each worker has its own.

    It is what `rocketmq_broker` gives. Tests that share it use topics and groups of their own.
    """
    from rmqcore.testing.served_broker import ServedBroker

    with ServedBroker(
        tmp_path_factory.mktemp("rocketmq"), rocketmq_broker_session_settings
    ) as broker:
        yield broker
