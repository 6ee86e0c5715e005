"""A master that waits for followers: none connects to this release, so a put says that, and does not say PUT_OK."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.engine.store.replica_status import replica_status
from rmqcore.errors import PutFailedError, StoreClosedError
from rmqcore.status import PutMessageStatus as Status

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "slave_timeout": 30}
WAITS: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
ACTING = {"enableSlaveActingMaster": "TRUE"}
CONTROLLER = {"enableControllerMode": "true"}
OK, TIMEOUT, TOO_FEW = (
    Status.PUT_OK,
    Status.FLUSH_SLAVE_TIMEOUT,
    Status.IN_SYNC_REPLICAS_NOT_ENOUGH,
)


@pytest.mark.parametrize(
    ("settings", "extra", "status"),
    [
        ({}, {}, OK),
        ({"in_sync_replicas": 2}, {}, OK),
        ({"broker_role": "SYNC_MASTER"}, {}, OK),
        (WAITS, {}, TIMEOUT),
        ({**WAITS, "duplication_enable": True}, {}, OK),
        ({**WAITS, "enable_auto_in_sync_replicas": True}, {}, TIMEOUT),
        ({**WAITS, "all_ack_in_sync_state_set": True}, {}, TIMEOUT),
        ({**WAITS, "in_sync_replicas": 1, "min_in_sync_replicas": 2}, {}, OK),
        (WAITS, ACTING, TOO_FEW),
        ({**WAITS, "in_sync_replicas": 1}, ACTING, OK),
        ({**WAITS, "enable_auto_in_sync_replicas": True}, ACTING, OK),
        (
            {**WAITS, "enable_auto_in_sync_replicas": True, "min_in_sync_replicas": 2},
            ACTING,
            TOO_FEW,
        ),
        (WAITS, CONTROLLER, TIMEOUT),
        ({**WAITS, "all_ack_in_sync_state_set": True}, CONTROLLER, OK),
        ({**WAITS, "min_in_sync_replicas": 2}, CONTROLLER, TOO_FEW),
    ],
)
def test_the_rule(settings: dict[str, Any], extra: dict[str, str], status: Status) -> None:
    assert replica_status(MessageStoreConfig(**settings, extra=extra)) is status


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("services", [True, False])
def test_a_put_without_enough_followers_is_stored_and_says_so(
    tmp_path: Path, services: bool, flush: str
) -> None:
    """A SYNC_MASTER with ``in_sync_replicas=2`` and no follower answered PUT_OK: the user took that for two copies."""
    options = {**SMALL, **WAITS, "flush_disk_type": flush}
    unwaited = Message("t", b"", properties={"WAIT": "false"})
    with rmqcore.open(tmp_path, services=services, **options) as store:
        result = store.put(Message("t", b"1"))
        assert (result.status, result.stored, result.queue_offset) == (TIMEOUT, True, 0)
        with pytest.raises(PutFailedError, match="FLUSH_SLAVE_TIMEOUT") as failed:
            result.raise_for_status()
        assert failed.value.stored
        assert store.put(unwaited).status is OK, "nobody waits"
        assert store.put_batch([Message("t", b"2")] * 2).status is TIMEOUT
        assert store.put_batch([unwaited]).status is OK
        many = store.put_many([Message("t", b"3"), Message("", b"illegal"), unwaited])
        assert list(many.statuses) == [TIMEOUT, Status.MESSAGE_ILLEGAL, TIMEOUT]
        assert store.put(Message("", b"")).status is Status.MESSAGE_ILLEGAL
        if flush == "SYNC_FLUSH":
            assert store.flushed_phy_offset == store.max_phy_offset
        assert store.wait_dispatched(60)
        assert store.max_offset("t", 0) == 7


def test_put_arrow_says_so_too(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.table({"topic": ["t", "t"], "body": [b"1", b"2"]})
    with rmqcore.open(tmp_path, services=False, **SMALL, **WAITS) as store:
        assert list(store.put_arrow(rows).statuses) == [TIMEOUT, TIMEOUT]
        assert store.max_phy_offset > 0


def test_with_too_few_in_the_group_nothing_is_stored(tmp_path: Path) -> None:
    """``enableSlaveActingMaster``: a broker that knows its group is too small refuses before it stores."""
    arrow = pytest.importorskip("pyarrow")
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerRole=SYNC_MASTER\ninSyncReplicas=2\nenableSlaveActingMaster=true\n")
    with rmqcore.open(tmp_path / "store", conf, services=False, **SMALL) as store:
        assert store.put(Message("t", b"1")).status is TOO_FEW
        assert store.put_batch([Message("t", b"1")]).status is TOO_FEW
        assert list(store.put_many([Message("t", b"1")] * 2).statuses) == [TOO_FEW] * 2
        with pytest.raises(PutFailedError, match="IN_SYNC_REPLICAS_NOT_ENOUGH"):
            store.put_arrow(arrow.table({"topic": ["t"], "body": [b"1"]}))
        assert store.max_phy_offset == 0
        assert store.put(Message("t", b"1", properties={"WAIT": "false"})).status is OK
        store.close()
        with pytest.raises(StoreClosedError):
            store.put(Message("t", b"1"))


def test_a_put_that_waits_for_followers_does_not_outlive_its_store(tmp_path: Path) -> None:
    results = []
    store = rmqcore.open(tmp_path, services=False, **{**SMALL, **WAITS, "slave_timeout": 600_000})
    waiting = threading.Thread(target=lambda: results.append(store.put(Message("t", b"1"))))
    waiting.start()
    eventually(lambda: store.max_phy_offset)
    store.close()
    waiting.join(60)
    assert not waiting.is_alive()
    assert results[0].status is TIMEOUT
