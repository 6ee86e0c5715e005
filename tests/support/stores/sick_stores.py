"""For each diagnosis of `rmqcore doctor` a store that has it: a sound one, and what happened to it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.stores.many_files import fill, settings
from support.stores.rocksdb_queues import in_rocksdb

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.disk import checkpoint as checkpoint_file
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.disk.used_space import DiskSpace
from rmqcore.engine.clean import disks
from rmqcore.maintenance.doctor import machine_checks
from rmqcore.maintenance.retention import growing_disks

FILE_SIZE = 64 << 10
FILES = 5
STORE_TIMESTAMP = 56
"""Of a record whose hosts are IPv4."""
DAY_MS = 86_400_000
SIZES = MessageStoreConfig(
    mapped_file_size_commit_log=FILE_SIZE,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=16,
    max_index_num=40,
)


@dataclass
class Sick:
    """A store that was sound, and how `doctor` is to be asked."""

    root: Path
    monkeypatch: pytest.MonkeyPatch
    options: dict[str, Any] = field(default_factory=dict)
    held: list[rmqcore.MessageStore] = field(default_factory=list)

    def log(self, number: int) -> Path:
        return self.root / "commitlog" / f"{number * FILE_SIZE:020}"

    def write(self, path: Path, at: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def newest(self) -> rmqcore.MessageView:
        return list(rmqcore.read(self.root).messages())[-1]

    def offsets(self, table: dict[str, dict[str, int]]) -> None:
        (self.root / "config").mkdir()
        path = self.root / "config" / "consumerOffset.json"
        path.write_text(json.dumps({"offsetTable": table}))

    def disk(self, percent: int) -> None:
        self.monkeypatch.setattr(disks, "used_percent", lambda _: percent)


def sound_store(root: Path, **more: Any) -> None:
    """Two topics in five files of the log, with many files of queues and index; cleanly closed."""
    with rmqcore.open(root, **{**settings(FILE_SIZE), **more}) as store:
        fill(store, FILES)


# ---- the log ----------------------------------------------------------------------------------------


def damaged_log(sick: Sick) -> None:
    sick.write(sick.log(FILES - 1), 200, b"x" * 8)


def torn_tail(sick: Sick) -> None:
    newest = sick.newest()
    end = newest.phy_offset + newest.msg_size - (FILES - 1) * FILE_SIZE
    sick.write(sick.log(FILES - 1), end, newest.raw[:60])


def log_file_size(sick: Sick) -> None:
    os.truncate(sick.log(1), FILE_SIZE - 100)


def half_made_last_file(sick: Sick) -> None:
    """As a full disk left it in 2021: RocketMQ refused to start."""
    sick.log(FILES).write_bytes(bytes(1000))


def log_file_name(sick: Sick) -> None:
    (sick.root / "commitlog" / "notes~").write_text("x")


def log_hole(sick: Sick) -> None:
    sick.log(1).unlink()


def log_missing(sick: Sick) -> None:
    for path in (sick.root / "commitlog").iterdir():
        path.unlink()


def log_of_zeros(sick: Sick) -> None:
    for path in (sick.root / "commitlog").iterdir():
        path.write_bytes(bytes(FILE_SIZE))


def log_only(sick: Sick) -> None:
    """Somebody copied ``commitlog/`` alone: doctor called the copy sick, and fsck sound."""
    for path in sick.root.iterdir():
        if path.name == "commitlog":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def moved_log(sick: Sick) -> None:
    for number in range(1, FILES):
        sick.log(number).unlink()
    sick.log(0).rename(sick.log(7))


def unread_by_release(sick: Sick) -> None:
    """A broker of 5.x put messages whose hosts are IPv6; the store goes back to 4.5."""
    with rmqcore.open(sick.root, **settings(FILE_SIZE)) as store:
        store.put(Message("T0", b"x", born_host="[2001:db8::7]:9")).raise_for_status()
        store.wait_dispatched()
    sick.options["for_version"] = "4.5.2"


def clock_step(sick: Sick) -> None:
    file = sick.log(3)
    stored = struct.unpack(">q", file.read_bytes()[STORE_TIMESTAMP : STORE_TIMESTAMP + 8])[0]
    sick.write(file, STORE_TIMESTAMP, struct.pack(">q", stored - DAY_MS))


def cut_away(sick: Sick) -> None:
    (sick.root / "cut").mkdir()
    (sick.root / "cut" / "00000000000000000042").write_bytes(b"what was cut")


# ---- how it was closed ------------------------------------------------------------------------------


def unclean_exit(sick: Sick) -> None:
    (sick.root / "abort").write_text("4711")


def in_use(sick: Sick) -> None:
    sick.held.append(rmqcore.open(sick.root, **settings(FILE_SIZE)))


def checkpoint(sick: Sick) -> None:
    ahead = StoreCheckpoint(physic_msg_timestamp_ms=1 << 60)
    (sick.root / "checkpoint").write_bytes(ahead.encode())


def no_checkpoint(sick: Sick) -> None:
    (sick.root / "checkpoint").unlink()
    unclean_exit(sick)


# ---- queues and index -------------------------------------------------------------------------------


def queues_missing(sick: Sick) -> None:
    shutil.rmtree(sick.root / "consumequeue")


def queues_behind(sick: Sick) -> None:
    """The log of a process that was killed while its dispatch was behind."""
    live = sick.root.with_name("live")
    with rmqcore.open(live, services=False, mapped_file_size_commit_log=4 << 20) as store:
        store.put(Message("T0", b"x"))
        store.dispatch_once()
        for _ in range(9):
            store.put(Message("T0", bytes(2 << 20))).raise_for_status()
        store.flush()
        shutil.rmtree(sick.root)
        shutil.copytree(live, sick.root)


def queue_beyond_log(sick: Sick) -> None:
    newest = sick.newest()
    sick.write(sick.log(FILES - 1), newest.phy_offset % FILE_SIZE, bytes(newest.msg_size))


def misnamed_records(sick: Sick) -> None:
    newest = sick.newest()
    at = newest.phy_offset % FILE_SIZE + bytes(newest.raw).rindex(newest.topic.encode())
    sick.write(sick.log(FILES - 1), at, b"U")


def place_taken(sick: Sick) -> None:
    """The last message of a queue got the queue offset of the one before it, which has the entry."""
    views = [one for one in rmqcore.read(sick.root).messages() if one.topic == "T0"]
    one, other = views[-2:]
    at = other.phy_offset % FILE_SIZE + 20
    sick.write(sick.log(FILES - 1), at, one.queue_offset.to_bytes(8, "big"))
    path = sick.root / "consumequeue" / "T0" / "0" / f"{other.queue_offset // 20 * 400:020}"
    sick.write(path, other.queue_offset % 20 * 20, bytes(20))


def queue_entries(sick: Sick) -> None:
    """Somebody renamed the directory of a queue."""
    queue = sick.root / "consumequeue" / "T1" / "0"
    queue.rename(queue.with_name("0.bak"))


def emptied_queue_file(sick: Sick) -> None:
    """The only file of a short queue."""
    with rmqcore.open(sick.root, **settings(FILE_SIZE)) as store:
        store.put(Message("Short", b"x")).raise_for_status()
        store.wait_dispatched()
    os.truncate(sick.root / "consumequeue" / "Short" / "0" / f"{0:020}", 0)


def first_queue_file_deleted(sick: Sick) -> None:
    (sick.root / "consumequeue" / "T0" / "0" / f"{0:020}").unlink()


def last_queue_files_deleted(sick: Sick) -> None:
    for path in sorted((sick.root / "consumequeue" / "T0" / "0").iterdir())[-3:]:
        path.unlink()


def queues_of_two_topics_swapped(sick: Sick) -> None:
    one, other, free = (sick.root / "consumequeue" / name for name in ("T0", "T1", "T2"))
    one.rename(free)
    other.rename(one)
    free.rename(other)


def queue_files_swapped(sick: Sick) -> None:
    queue = sick.root / "consumequeue" / "T0" / "0"
    one, other, free = queue / f"{400:020}", queue / f"{800:020}", queue / "free"
    one.rename(free)
    other.rename(one)
    free.rename(other)


def zeros_in_a_queue(sick: Sick) -> None:
    sick.write(sick.root / "consumequeue" / "T0" / "0" / f"{400:020}", 100, bytes(200))


def numbers_in_the_other_byte_order(sick: Sick) -> None:
    for path in (sick.root / "consumequeue").glob("*/*/0*"):
        entries = ENTRY.iter_unpack(path.read_bytes())
        path.write_bytes(b"".join(struct.pack("<qiq", *entry) for entry in entries))


def queue_min_below_log(sick: Sick) -> None:
    """Somebody deleted old files by hand: the first files of the queues speak of nothing that is there."""
    for number in range(2):
        sick.log(number).unlink()


def queue_files(sick: Sick) -> None:
    os.truncate(sick.root / "consumequeue" / "T0" / "0" / f"{400:020}", 390)


def group_beyond_queue(sick: Sick) -> None:
    sick.offsets({"T0@billing": {"0": 1_000_000}})


ENTRY = struct.Struct(">qiq")
SLOT = struct.Struct(">qqqii")
SLOTS = 2 * 604_800


def write_wheel(root: Path, slots: dict[int, int], *, read_to_ms: int, queue_offset: int) -> None:
    """A timer wheel as Java leaves it: by the second how many messages are due; and up to where it was read."""
    with (root / "timerwheel").open("wb") as file:
        file.truncate(SLOTS * SLOT.size)
        for second, count in slots.items():
            file.seek(second % SLOTS * SLOT.size)
            file.write(SLOT.pack(second, 0, 0, count, 0))
    (root / "config").mkdir(exist_ok=True)
    check = struct.pack(">qqqq", read_to_ms, 0, queue_offset, queue_offset)
    (root / "config" / "timercheck").write_bytes(check.ljust(4096, b"\0"))


def timer_waiting(sick: Sick) -> None:
    with rmqcore.open(sick.root, **settings(FILE_SIZE)) as store:
        for _ in range(7):
            store.put(Message("rmq_sys_wheel_timer", b"timed")).raise_for_status()
        store.wait_dispatched()
    write_wheel(
        sick.root,
        {1_800_000_000: 3, 1_800_000_100: 4},
        read_to_ms=1_800_000_050_000,
        queue_offset=7,
    )


def put_popped(root: Path, bodies: list[tuple[str, bytes]], **more: Any) -> None:
    """Check points and acknowledgements of POP, in the topic where Java puts them."""
    with rmqcore.open(root, **{**settings(FILE_SIZE), **more}) as store:
        for tag, body in bodies:
            store.put(Message("rmq_sys_REVIVE_LOG_C", body, tags=tag)).raise_for_status()
        store.wait_dispatched()


def popped_body(**more: object) -> bytes:
    body = {"bn": "a", "c": "g", "pt": 1_795_692_169_571, "q": 3, "so": 10, "t": "T0", **more}
    return json.dumps(body).encode()


def pop_waiting(sick: Sick) -> None:
    given = popped_body(bm=0, d=[0, 1, 2, 3], n=4)
    put_popped(sick.root, [("ck", given), ("ack", popped_body(ao=11))])


def delay_offset(sick: Sick) -> None:
    with rmqcore.open(sick.root, **settings(FILE_SIZE)) as store:
        for _ in range(3):
            store.put(Message("T0", b"later", properties={"DELAY": "3"})).raise_for_status()
        store.wait_dispatched()
    (sick.root / "config").mkdir()
    (sick.root / "config" / "delayOffset.json").write_text('{"offsetTable":{3:900,1:0}}')


def many_queues(sick: Sick) -> None:
    limit = sick.root.with_name("max_map_count")
    limit.write_text("10\n")
    sick.monkeypatch.setattr(machine_checks, "MAP_COUNT", limit)


def store_kind(sick: Sick) -> None:
    (sick.root / "timerwheel").write_bytes(bytes(100))


def rocksdb_queues(sick: Sick) -> None:
    in_rocksdb(sick.root)


def rocksdb_damaged(sick: Sick) -> None:
    place = in_rocksdb(sick.root)
    next(place.glob("MANIFEST-*")).unlink()


def compaction_files(sick: Sick) -> None:
    log = sick.root / "compaction/compactionLog/Keys/0" / f"{0:020d}"
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(100))


def index_files(sick: Sick) -> None:
    os.truncate(sorted((sick.root / "index").iterdir())[1], 100)


def index_file_lost(sick: Sick) -> None:
    sorted((sick.root / "index").iterdir())[1].unlink()


def index_of_another_store(sick: Sick) -> None:
    other = sick.root.with_name("other store")
    with rmqcore.open(other, **settings(FILE_SIZE)) as store:
        store.put(Message("T2", bytes(500), keys="k")).raise_for_status()
        fill(store, FILES)
    shutil.rmtree(sick.root / "index")
    (other / "index").rename(sick.root / "index")


def index_missing(sick: Sick) -> None:
    shutil.rmtree(sick.root / "index")


def index_grows(sick: Sick) -> None:
    for number in range(4):
        sick.log(number).unlink()


# ---- configuration ----------------------------------------------------------------------------------


def torn_config(sick: Sick) -> None:
    (sick.root / "config").mkdir()
    (sick.root / "config" / "topics.json").write_text('{"dataVersion":{"coun')


def torn_config_with_backup(sick: Sick) -> None:
    torn_config(sick)
    (sick.root / "config" / "topics.json.bak").write_text(
        '{"dataVersion":{},"topicConfigTable":{}}'
    )


def config_sizes(sick: Sick) -> None:
    sick.options["config"] = SIZES.changed(mapped_file_size_commit_log=1 << 30)


# ---- disk and groups --------------------------------------------------------------------------------


def disk_full(sick: Sick) -> None:
    sick.disk(95)


def disk_nearly_full(sick: Sick) -> None:
    sick.disk(80)


def disk_fills(sick: Sick) -> None:
    """A log of a day, on a disk with room for three more, and messages that are kept for a month."""
    stored = sick.newest().store_timestamp_ms
    sick.write(sick.log(0), STORE_TIMESTAMP, struct.pack(">q", stored - DAY_MS))
    sick.monkeypatch.setattr(
        growing_disks, "disk_space", lambda _: DiskSpace(FILES << 16, FILES << 18)
    )
    sick.options["config"] = SIZES.changed(file_reserved_time=720, clean_file_forcibly_enable=False)
    sick.options["now_ms"] = stored


def unread_lost(sick: Sick) -> None:
    shutil.rmtree(sick.root)
    sound_store(sick.root, mapped_file_size_consume_queue=20_000)
    sick.log(0).unlink()
    sick.offsets({"T0@slow": {"0": 3}, "T1@quick": {"0": 60}})


def unread_goes(sick: Sick) -> None:
    sick.offsets({"T0@slow": {"0": 3}})
    sick.options["now_ms"] = int(sick.log(0).stat().st_mtime * 1000) + 73 * 3_600_000


def files_stay(sick: Sick) -> None:
    when = sick.log(0).stat().st_mtime + 10 * 86_400
    os.utime(sick.log(0), (when, when))


def files_overdue(sick: Sick) -> None:
    in_use(sick)
    sick.options["config"] = SIZES
    sick.options["now_ms"] = int(sick.log(0).stat().st_mtime * 1000) + (72 + 49) * 3_600_000


def owners(sick: Sick) -> None:
    path = min((sick.root / "index").iterdir())
    if os.geteuid() == 0:
        os.chown(path, 4711, -1)
    else:
        path.chmod(0o400)


def unreadable(sick: Sick) -> None:
    """Its owner alone may read it. Root reads everything, so the open fails by hand."""
    path = sick.root / "checkpoint"

    def refuse(*_: Any, **more: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    sick.monkeypatch.setattr(checkpoint_file, "open_file", refuse)


def odd_files(sick: Sick) -> None:
    (sick.root / "index" / "20260101000000000").symlink_to(sick.root.with_name("elsewhere"))


def directory_in_the_place_of_a_file(sick: Sick) -> None:
    (sick.root / "abort").mkdir()


def log_file_twice(sick: Sick) -> None:
    """Half of the log was moved to another disk, and one file is on both."""
    other = sick.root.with_name("disk2")
    other.mkdir()
    shutil.copy(sick.log(1), other)
    sick.options["commitlog"] = f"{sick.root / 'commitlog'},{other}"


def not_looked_at(sick: Sick) -> None:
    """Where a start begins cannot be told of such a log."""
    log_file_twice(sick)
    (sick.root / "abort").touch()


# ---- thorough ---------------------------------------------------------------------------------------


def fsck_errors(sick: Sick) -> None:
    sick.write(sick.root / "consumequeue" / "T0" / "0" / f"{0:020}", 40, bytes(20))
    sick.options["thorough"] = True


def fsck_warnings(sick: Sick) -> None:
    index_files(sick)
    sick.options["thorough"] = True


HARMS: dict[str, tuple[Callable[[Sick], None], ...]] = {
    harm.__name__: (harm,)
    for harm in (
        damaged_log,
        torn_tail,
        log_file_name,
        log_hole,
        log_missing,
        log_only,
        moved_log,
        unread_by_release,
        clock_step,
        cut_away,
        unclean_exit,
        in_use,
        checkpoint,
        no_checkpoint,
        queues_missing,
        queues_behind,
        queue_beyond_log,
        misnamed_records,
        place_taken,
        queue_entries,
        queue_min_below_log,
        queue_files,
        group_beyond_queue,
        timer_waiting,
        pop_waiting,
        delay_offset,
        many_queues,
        store_kind,
        rocksdb_queues,
        rocksdb_damaged,
        compaction_files,
        index_files,
        index_missing,
        index_grows,
        torn_config,
        torn_config_with_backup,
        config_sizes,
        disk_full,
        disk_nearly_full,
        disk_fills,
        unread_lost,
        unread_goes,
        files_stay,
        files_overdue,
        owners,
        unreadable,
        odd_files,
        log_file_twice,
        not_looked_at,
        fsck_errors,
        fsck_warnings,
    )
}
HARMS["log_file_size"] = (log_file_size, half_made_last_file)
HARMS["index_files"] = (index_files, index_file_lost, index_of_another_store)
HARMS["log_missing"] = (log_missing, log_of_zeros)
HARMS["odd_files"] = (odd_files, directory_in_the_place_of_a_file)
HARMS["queue_entries"] = (
    queue_entries,
    emptied_queue_file,
    first_queue_file_deleted,
    last_queue_files_deleted,
    queues_of_two_topics_swapped,
    queue_files_swapped,
    zeros_in_a_queue,
    numbers_in_the_other_byte_order,
)
"""What brings each diagnosis, by its name."""
