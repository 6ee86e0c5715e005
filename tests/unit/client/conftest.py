"""The cluster without sockets that tests of the client share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.fake_cluster import FakeCluster, fake_cluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster() as made:
        yield made
