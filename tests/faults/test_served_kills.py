"""kill -9 of `rmqcore serve` under eight senders, again and again: what was answered is there.

RMQCORE_SERVED_KILLS: how often.
"""

from __future__ import annotations

import json
import random
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.raw_client import RawClient, pull_request, send_request
from support.server_process import OPENED, ServerProcess, fsck

import rmqcore
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

KILLS = dose("RMQCORE_SERVED_KILLS", test=1, verify=3, night=200)
SENDERS = 8
QUEUES = 4
TOPIC = "orders"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
GROUP = "readers"
Place = tuple[str, int, int]


class Load:
    """Senders, and a member of a group that reads and commits. It remembers what it was told.

    Attributes
    ----------
    stored : dict
        The bodies of all messages that were answered SEND_OK, by where the answer says they are.
    halves : set of str
        Keys of half messages that were answered SEND_OK, of transactions that nobody ends.
    asked : dict
        The highest offset of each queue that was ever sent for a commit.
    """

    def __init__(self, rng: random.Random) -> None:
        self.stored: dict[Place, bytes] = {}
        self.halves: set[str] = set()
        self.asked: dict[int, int] = dict.fromkeys(range(QUEUES), 0)
        self.unexpected: list[object] = []
        self._rng = rng
        self._guard = threading.Lock()
        self._numbers = count()

    def run(self, server: ServerProcess, answers: int) -> None:
        """Load a server, and kill it once so many messages more were answered."""
        enough = threading.Event()
        wanted = len(self.stored) + answers
        seeds = [self._rng.random() for _ in range(SENDERS)]
        threads = [
            threading.Thread(target=self._send, args=(server.broker, seed, wanted, enough))
            for seed in seeds
        ]
        threads.append(threading.Thread(target=self._consume, args=(server.broker,)))
        for thread in threads:
            thread.start()
        assert enough.wait(300), self.unexpected
        server.kill()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()

    def _send(self, address: str, seed: float, wanted: int, enough: threading.Event) -> None:
        rng = random.Random(seed)
        try:
            with RawClient(address) as client:
                while True:
                    self._send_one(client, rng)
                    if len(self.stored) >= wanted:
                        enough.set()
        except ConnectionError:
            pass  # the server was killed
        except Exception as error:  # noqa: BLE001 a thread's exception is shown by the test that waits for it
            self.unexpected.append(error)

    def _send_one(self, client: RawClient, rng: random.Random) -> None:
        number = next(self._numbers)
        key = f"K{number}"
        body = f"{key} ".encode() * rng.choice((1, 3, 30, 900))
        request = send_request(TOPIC, body, rng.randrange(QUEUES), key)
        half = rng.random() < 0.1
        if half:
            request.ext_fields["i"] += "TRAN_MSG\x01true\x02PGROUP\x01raw\x02"
            request.ext_fields["f"] = "4"  # the sysFlag of a prepared transaction
        answer = client.ask(request)
        if answer.code != ResponseCode.SUCCESS:
            self.unexpected.append(answer)
            return
        with self._guard:
            if half:
                self.halves.add(key)
            else:
                place = int(answer.ext_fields["queueId"]), int(answer.ext_fields["queueOffset"])
                if (TOPIC, *place) in self.stored:
                    self.unexpected.append(f"{place} was given twice")
                self.stored[TOPIC, *place] = body

    def _consume(self, address: str) -> None:
        try:
            with RawClient(address) as client:
                queue_offsets = [committed(client, queue_id) for queue_id in range(QUEUES)]
                while True:
                    for queue_id in range(QUEUES):
                        at = max(queue_offsets[queue_id], 0)
                        pull = pull_request(TOPIC, at, queue_id=queue_id, group=GROUP, held_ms=20)
                        answer = client.ask(pull)
                        if answer.code == ResponseCode.SUCCESS:
                            queue_offsets[queue_id] = int(answer.ext_fields["nextBeginOffset"])
                            self.asked[queue_id] = queue_offsets[queue_id]
                            commit(client, queue_id, queue_offsets[queue_id])
        except ConnectionError:
            pass  # the server was killed
        except Exception as error:  # noqa: BLE001 as above
            self.unexpected.append(error)


def committed(client: RawClient, queue_id: int) -> int:
    """Give the group's offset in a queue; -1 where it has none."""
    code = RequestCode.QUERY_CONSUMER_OFFSET
    fields: dict[str, Value] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
    fields["setZeroIfNotFound"] = False
    answer = client.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields)))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return -1
    assert answer.code == ResponseCode.SUCCESS, answer
    return int(answer.ext_fields["offset"])


def commit(client: RawClient, queue_id: int, queue_offset: int) -> None:
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    fields: dict[str, Value] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
    fields["commitOffset"] = queue_offset
    answer = client.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields)))
    assert answer.code == ResponseCode.SUCCESS, answer


def create_topic(address: str) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    fields: dict[str, Value] = {
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    with RawClient(address) as client:
        answer = client.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields)))
        assert answer.code == ResponseCode.SUCCESS, answer


def check_served(load: Load, server: ServerProcess) -> None:
    """Look that a server that was started anew knows no offset that nobody has committed."""
    with RawClient(server.broker) as client:
        for queue_id, asked in load.asked.items():
            found = committed(client, queue_id)
            assert found <= asked, f"queue {queue_id}: {found} was never committed"


def check_store(load: Load, store: Path) -> None:
    """Look at a store that nobody has open: what was answered is there, at its place, and the files can be read."""
    code, said = fsck(store)
    assert code == 0, said
    for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
        assert isinstance(json.loads((store / "config" / name).read_text()), dict), name
    assert TOPIC in json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"]
    with rmqcore.open(store, services=False, **OPENED) as opened:
        for (topic, queue_id, queue_offset), body in load.stored.items():
            (message,) = opened.get(topic, queue_id, queue_offset, 1).messages
            assert (message.queue_offset, message.body) == (queue_offset, body)
        keys: set[str] = set()
        queue_offset = 0
        while len(got := opened.get(HALF_TOPIC, 0, queue_offset)):
            keys.update(str(message.uniq_key) for message in got.messages)
            queue_offset += len(got)
        assert load.halves <= keys


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", ["ASYNC_FLUSH", pytest.param("SYNC_FLUSH", marks=pytest.mark.smoke)]
)
def test_what_was_answered_is_there(folder: Path, rng: random.Random, mode: str) -> None:
    settings: dict[str, Any] = {
        "flushDiskType": mode,
        "flushConsumerOffsetInterval": 50,
        "transactionTimeOut": 3_600_000,  # a half is kept, and nobody is asked about it
    }
    load = Load(rng)
    server = ServerProcess(folder, settings=settings)
    with server:
        create_topic(server.broker)
        for _ in range(KILLS):
            load.run(server, rng.randrange(200, 2_000))
            assert not load.unexpected
            server.start()
            check_served(load, server)
        with RawClient(server.broker) as client:  # the kills may all have come before a first save
            commit(client, 0, max(committed(client, 0), 0))
        assert server.stop() == 0
    check_store(load, server.store)
    assert len(load.stored) >= 200 * KILLS
    assert load.halves
    assert "Traceback" not in server.log
