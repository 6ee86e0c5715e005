"""Dispatch to queues that lost entries: it goes back in the log, however far, and each entry lies at its queue offset.

Recovery used to append what it dispatched again at the end that was left: with a lost queue file the message of queue offset 112
was served as 92, those between were unreachable, and the next put went on from the wrong number.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.oracle.log import QUEUED
from support.oracle.queue import ENTRY, Queue
from support.stores.built_store import BuiltStore
from support.stores.queue_batches import open_queues, queue_files

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.dispatch import dispatcher as dispatch
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.errors import CorruptMessageError

FILE_SIZE = 2048
PER_FILE = 4
FILLER = oracle.CQ_FILLER
Place = tuple[str, int]


class Bench:
    """A built log, queues in their files, and a dispatcher between them."""

    def __init__(self, store: BuiltStore, cq_from: int = 0) -> None:
        self.store = store
        self.config = MessageStoreConfig(
            mapped_file_size_commit_log=FILE_SIZE, enable_lmq=True, enable_multi_dispatch=True
        )
        self.log = CommitLog(StorePaths(store.root), self.config, on_failure=lambda error: None)
        self.log.load()
        self.queues = open_queues(store.root, PER_FILE)
        self.dispatcher = Dispatcher(self.log, self.queues, None, self.config)
        self.dispatcher.cq_from = cq_from

    def run(self, end: int | None = None, max_bytes: int = 16 << 20) -> None:
        steps = 0
        while self.dispatcher.dispatch_once(end_of(self.store) if end is None else end, max_bytes):
            steps += 1
            assert steps < 2000
        self.queues.close()

    def files(self) -> dict[Place, dict[int, bytes]]:
        return queue_files(self.store.root)


def end_of(store: BuiltStore) -> int:
    last = store.records[-1]
    return last.phy_offset + (last.msg_size or 0)


def built(root: Path, count: int = 120) -> BuiltStore:
    """Records of two queues in turn; a third queue has one message at each end."""
    store = BuiltStore(root, log_file_size=FILE_SIZE)
    store.put("rare", 0)
    for number in range(count):
        store.put("T", number % 2, body=bytes(number % 50))
    return store


def expected(store: BuiltStore, lost: frozenset[int] = frozenset()) -> dict[Place, Queue]:
    """The queues that the slow model makes of the whole log, without the lost records."""
    queues: dict[Place, Queue] = {}
    for record in store.records:
        if record.phy_offset in lost or record.sys_flag & oracle.TRANSACTION_MASK not in QUEUED:
            continue
        entry = record.phy_offset, record.msg_size or 0, record.tags_code
        places = [(oracle.text_of(record.topic), record.queue_id, record.queue_offset)]
        properties = record.property_map
        if "INNER_MULTI_DISPATCH" in properties:
            names = properties["INNER_MULTI_DISPATCH"].split(",")
            offsets = properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
            pairs = zip(names, offsets, strict=True)
            places += [(name, 0, int(offset)) for name, offset in pairs]
        for topic, queue_id, queue_offset in places:
            queue = queues.setdefault((topic, queue_id), Queue(PER_FILE * ENTRY, topic))
            assert queue.put(*entry, queue_offset) is None
    return queues


def files_of(queues: dict[Place, Queue]) -> dict[Place, dict[int, bytes]]:
    return {
        place: {start: bytes(data) for start, data in sorted(queue.files.items())}
        for place, queue in queues.items()
        if queue.files
    }


def lose(root: Path, place: Place, kept: int, first: int = 0) -> None:
    """Leave a queue its first entries, `kept` of them from the queue offset `first` on."""
    folder = root / "consumequeue" / place[0] / str(place[1])
    end = ENTRY * (first + kept)
    for path in folder.iterdir():
        start = int(path.name)
        if start >= end:
            path.unlink()
        else:
            data = path.read_bytes()[: max(0, end - start)]
            path.write_bytes(data.ljust(ENTRY * PER_FILE, b"\0"))


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 40, 59])
@pytest.mark.parametrize("max_bytes", [1, 16 << 20])
def test_a_queue_that_lost_its_end(tmp_path: Path, kept: int, max_bytes: int) -> None:
    store = built(tmp_path)
    store.write_log()
    Bench(store).run()
    whole = queue_files(tmp_path)
    lose(tmp_path, ("T", 0), kept)
    dispatched = end_of(store)
    store.put("T", 0)
    store.put("T", 1)
    store.write_log()
    bench = Bench(store, dispatched)
    bench.run(max_bytes=max_bytes)
    assert bench.files() == files_of(expected(store)) != whole
    assert (bench.queues.gaps, bench.queues.refused) == (0, 0)
    assert bench.dispatcher.reput_from_offset == end_of(store)
    assert bench.dispatcher.done.last_phy_offset == store.records[-1].phy_offset


def test_each_queue_needs_to_go_further_back_than_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walks over the log double in length: the log is not read once for each queue."""
    store = BuiltStore(tmp_path, log_file_size=FILE_SIZE)
    count = 40
    for number in range(count):
        store.put("T", number, body=bytes(1500))
    store.write_log()
    Bench(store).run()
    dispatched = end_of(store)
    for number in reversed(range(count)):
        store.put("T", number, body=bytes(1500), queue_offset=1)
    for number in reversed(range(count)):
        store.put("T", number, queue_offset=2)
    store.write_log()
    bench = Bench(store, dispatched)
    bench.run(dispatched + count * FILE_SIZE)
    for number in range(count):
        lose(tmp_path, ("T", number), 1)
    read = 0
    bench = Bench(store, dispatched + count * FILE_SIZE)
    put_batch = ConsumeQueues.put_batch

    def counted(*given: object) -> int | None:
        nonlocal read
        read += 1
        return put_batch(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(ConsumeQueues, "put_batch", counted)
    monkeypatch.setattr(dispatch, "NEAR_ROWS", 1)
    bench.dispatcher = Dispatcher(bench.log, bench.queues, None, bench.config)
    bench.dispatcher.cq_from = dispatched + count * FILE_SIZE
    bench.run()
    assert bench.files() == files_of(expected(store))
    assert read < 8 * len(store.records)


def test_index_and_reput_offset_do_not_go_back(tmp_path: Path) -> None:
    store = built(tmp_path)
    store.write_log()
    Bench(store).run()
    lose(tmp_path, ("T", 0), 2)
    dispatched = end_of(store)
    store.put("T", 0)
    store.write_log()
    bench = Bench(store, dispatched)
    given: list[int] = []

    class Index:
        def put_batch(self, scan: object, batch: object, from_phy_offset: int) -> None:
            given.append(from_phy_offset)

    bench.dispatcher = Dispatcher(bench.log, bench.queues, Index(), bench.config)
    bench.dispatcher.cq_from = bench.dispatcher.index_from = dispatched
    seen = []
    while bench.dispatcher.dispatch_once(end_of(store), 500):
        seen.append(bench.dispatcher.reput_from_offset)
    assert seen == [*[dispatched] * (len(seen) - 1), end_of(store)]
    assert len(seen) > 3
    assert given == [dispatched]
    assert bench.files() == files_of(expected(store))


def test_what_the_log_does_not_have_is_filled(tmp_path: Path) -> None:
    """Its files were deleted, or damage took the records: their places stay empty, and no other entry moves."""
    store = built(tmp_path)
    store.write_log()
    lost = frozenset(r.phy_offset for r in store.records if 1 <= r.phy_offset // FILE_SIZE <= 2)
    for start in (FILE_SIZE, 2 * FILE_SIZE):
        (tmp_path / "commitlog" / f"{start:020d}").unlink()
    bench = Bench(store)
    bench.run()
    assert bench.files() == files_of(expected(store, lost))
    assert bench.queues.gaps == len(lost)


@pytest.mark.parametrize("kept", [0, 3, 30])
def test_damage_in_the_range_that_is_given_again(tmp_path: Path, kept: int) -> None:
    store = built(tmp_path)
    store.write_log()
    Bench(store).run()
    lose(tmp_path, ("T", 0), kept)
    dispatched = end_of(store)
    for queue_id in (0, 1):
        store.put("T", queue_id)
    store.write_log()
    rotten = store.records[75]
    store.change_log(rotten.phy_offset, b"\x55" * (rotten.msg_size or 0))
    (other,) = [
        r for r in store.records if (r.queue_id, r.queue_offset) == (0, 37) and r.topic == b"T"
    ]
    assert other is rotten
    bench = Bench(store, dispatched)
    bench.run()
    assert (
        bench.files()["T", 0] == files_of(expected(store, frozenset([rotten.phy_offset])))["T", 0]
    )
    assert bench.files()["T", 1] == files_of(expected(store))["T", 1]
    assert bench.queues.gaps == 1
    (skipped,) = bench.dispatcher.skipped
    assert (skipped.start_phy_offset, skipped.end_phy_offset) == (
        rotten.phy_offset,
        rotten.phy_offset + (rotten.msg_size or 0),
    )
    # At or behind what was dispatched damage stops the dispatch, as ever.
    store.put("T", 0)
    store.write_log()
    store.change_log(store.records[-1].phy_offset, b"\x55" * 50)
    with pytest.raises(CorruptMessageError):
        Bench(store, dispatched).run()


def test_a_damaged_size_in_the_range_that_reaches_over_the_file(tmp_path: Path) -> None:
    """It was taken for a record whose end has not been written yet, and dispatch waited for that for ever."""
    store = built(tmp_path)
    store.write_log()
    Bench(store).run()
    lose(tmp_path, ("T", 0), 1)
    dispatched = end_of(store)
    store.put("T", 0)
    store.write_log()
    rotten = store.records[75]
    store.change_log(rotten.phy_offset, (FILE_SIZE).to_bytes(4, "big"))
    bench = Bench(store, dispatched)
    bench.run()
    assert bench.dispatcher.reput_from_offset == end_of(store)
    assert (
        bench.files()["T", 0] == files_of(expected(store, frozenset([rotten.phy_offset])))["T", 0]
    )


def test_a_wrong_number_in_a_header_moves_no_other_entry(tmp_path: Path) -> None:
    """A flipped bit asks for terabytes of fillers: that record has no place, all others have theirs."""
    store = built(tmp_path)
    store.write_log()
    rotten = store.records[40]
    store.change_log(rotten.phy_offset + 20, (1 << 40).to_bytes(8, "big"))
    bench = Bench(store)
    bench.run()
    assert bench.files() == files_of(expected(store, frozenset([rotten.phy_offset])))
    assert (bench.queues.gaps, bench.queues.refused) == (1, 1)


@pytest.mark.parametrize("seed", range(40))
def test_any_log_and_any_loss(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps, repeats, zeros, wild numbers, light queues, damage: what queues lost in their files is as the whole log makes it."""
    chance = random.Random(seed)
    monkeypatch.setattr(dispatch, "NEAR_ROWS", chance.choice([1, 5, 1000]))
    store = BuiltStore(tmp_path, log_file_size=FILE_SIZE)
    following: dict[Place, int] = {}
    repeated: set[Place] = set()
    for number in range(chance.randrange(1, 150)):
        place = chance.choice(["T", "Other", "%LMQ%a"]), chance.randrange(3)
        queue_offset = following.get(place, chance.choice([0, 0, 5, 13]))
        if chance.random() < 0.1:
            queue_offset = chance.choice([0, queue_offset + 1, max(0, queue_offset - 3), 1 << 50])
        if queue_offset < following.get(place, 0):
            repeated.add(place)
        following[place] = min(queue_offset, 1 << 20) + 1
        properties = {}
        if number % 4 == 0:
            names = chance.choice(["%LMQ%a", "%LMQ%b", "%LMQ%b,%LMQ%b", "%LMQ%a,%LMQ%b"]).split(",")
            offsets = {name: following.get((name, 0), 0) for name in names}
            for name in names:
                following[name, 0] = following.get((name, 0), 0) + 1
            properties = {
                "INNER_MULTI_DISPATCH": ",".join(names),
                "INNER_MULTI_QUEUE_OFFSET": ",".join(str(offsets[name]) for name in names),
            }
        flag = chance.choice([0] * 8 + [0x4, 0xC])
        body = bytes(chance.randrange(200))
        store.put(
            *place, queue_offset=queue_offset, properties=properties, sys_flag=flag, body=body
        )
    store.write_log()
    Bench(store).run(max_bytes=chance.choice([1, 700, 1 << 20]))
    assert queue_files(tmp_path) == files_of(expected(store))
    for place, queue in expected(store).items():
        if place in repeated:
            continue  # two records say one place: which of them has it depends on where the walk begins
        first = queue.min_offset
        ends = [
            at - first
            for at in range(first, queue.max_offset + 1)
            if at == first or queue.entry(at - 1) not in (None, FILLER)
        ]
        lose(tmp_path, place, chance.choice(ends), first)
    dispatched = end_of(store)
    for place, queue in expected(store).items():
        if place[0].startswith("%LMQ%") and place[1] == 0:
            further = {"INNER_MULTI_DISPATCH": place[0]}
            further["INNER_MULTI_QUEUE_OFFSET"] = str(queue.max_offset)
            store.put("carrier", 0, properties=further)
        else:
            store.put(*place, queue_offset=queue.max_offset)
    store.write_log()
    bench = Bench(store, dispatched)
    bench.run(max_bytes=chance.choice([1, 700, 1 << 20]))
    assert bench.files() == files_of(expected(store))
