"""Recognises the kind of a store by its files, regardless of a configuration.

Every writer of a store calls `refuse_to_write` first; `info` and `doctor` show the kinds that `find_kinds` finds.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import MappingProxyType

from rmqcore._native.format.layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, REC_MAGIC
from rmqcore.disk.paths import PATH_SPLITTER, StorePaths, parse_file_name, parse_queue_id
from rmqcore.disk.queue_files import batch_topics, compacted_topics
from rmqcore.disk.read_range import read_range
from rmqcore.disk.topics_file import configured_batch_topics
from rmqcore.errors import CommitLogMissingError, StoreError, StoreKindError
from rmqcore.vocabulary.topics import REVIVE_TOPIC_PREFIX

DLEDGER_HEAD_SIZE = 48
"""Bytes before each record of a DLedger log. Source: DLedger 0.3 DLedgerEntry#HEADER_SIZE."""
BEGINNING = DLEDGER_HEAD_SIZE + REC_MAGIC + 4
"""Bytes at the start of a log file that `log_kind` needs."""
ASKED_FILES = 4
"""Files of a log whose first bytes are read, so that one damaged file does not hide a DLedger log."""
ROCKSDB_FOLDER = "consumequeue_rocksdb"
"""Place of the queues with useSeparateStorePathForRocksdbCQ. Source: RocketMQ 5.5.0 StorePathConfigHelper."""
INDEX_DATABASE = "rocksdbstore"
"""Place of the index with indexRocksDBEnable; RocketMQ 5.5.0 makes an empty database there in every store.

Source: RocketMQ 5.5.0 MessageRocksDBStorage."""
TIERED = ("tiered_index_file", "config/tieredStoreMetadata.json")
"""Files that the plugin of a tiered store leaves in the root."""
COMPACTED, COMPACTED_ENTRIES = "compaction/compactionLog", "compaction/compactionCq"
"""Places of the messages of compacted topics, and of the entries that lead to them. Source: RocketMQ 5.5.0 CompactionStore."""
NOT_READ = "which rmqcore does not read; use a RocketMQ broker for it"
_DATABASE = re.compile(r"CURRENT|MANIFEST-\d+|OPTIONS-\d+|\d{6,}\.(sst|log)")
_DLEDGER = re.compile(r"dledger-.+")
_MOST_NAMES = 100_000
"""Most names of a directory to check, if one match is enough."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of storage that a store uses beside plain files.

    Attributes
    ----------
    name : str
        Name of the kind in docs/store-kinds.md, such as ``rocksdb_queues``.
    place : str
        Place of its files, relative to the store's root; absolute if they lie elsewhere.
    sentence : str
        Description of the kind.
    writable : bool
        Whether rmqcore writes such a store.
    hint : str
        Next step for the user; empty if none is needed.
    """

    name: str
    place: str
    sentence: str
    writable: bool
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    sentence: str
    writable: bool = True
    hint: str = ""


_READ_ONLY = (
    "use the commands that only read; to continue without Java, make a store with queue files: "
    "rmqcore convert STORE OUT --queues file"
)
RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "rocksdb_queues": _Rule(
            "the queues are in RocksDB (storeType=defaultRocksDB)",
            writable=False,
            hint=_READ_ONLY,
        ),
        "double_write": _Rule(
            "the queues are both in files and in RocksDB (rocksdbCQDoubleWriteEnable=true)",
            writable=False,
            hint="RocksDB would lack entries that rmqcore writes to the files: " + _READ_ONLY,
        ),
        "dledger": _Rule(
            "the log is DLedger's (enableDLegerCommitLog=true): 48 bytes of DLedger lie before each record",
            writable=False,
            hint=(
                "use the commands that only read; to continue without DLedger, make an ordinary "
                "store: rmqcore salvage STORE OUT"
            ),
        ),
        "batch_queues": _Rule(
            "topics have batch queues (queue.type=BatchCQ), to which rmqcore does not write",
        ),
        "consumequeue_ext": _Rule("queue entries have extensions (enableConsumeQueueExt=true)"),
        "log_elsewhere": _Rule(
            "CommitLog files are in a directory that was not named as one of the log's",
            hint="name all directories of the log: --commitlog DIR,DIR (store_path_commit_log)",
        ),
        "compaction": _Rule(
            "topics are compacted (cleanup.policy=COMPACTION): compaction/ has the newest message "
            "of each key, and rmqcore does not write to these topics",
        ),
        "timer": _Rule("messages are timed (timerwheel, timerlog): rmqcore does not deliver them"),
        "pop": _Rule(
            "consumers use POP (rmq_sys_REVIVE_LOG_*): rmqcore does not redeliver messages"
        ),
        "lmq": _Rule("offsets of groups are in config/lmqConsumerOffset.json (enableLmq=true)"),
        "tiered": _Rule("older messages may be in a tiered store, which rmqcore does not read"),
        "controller": _Rule(
            "the broker is in a controller's group (enableControllerMode=true), and records "
            "epochs of its log"
        ),
        "rocksdb_index": _Rule(
            "rocksdbstore/ has entries: an index (indexRocksDBEnable=true), timers or transactions",
        ),
        "rocksdb_config": _Rule(
            "topics, groups or offsets are in RocksDB (configManagerV2, useSingleRocksDBForAllConfigs): they are not read"
        ),
    }
)
"""For each kind: its description, whether rmqcore writes it, and the next step."""
_CONFIG_IN_ROCKSDB = (
    "config/metadata",
    "config/consumerOffsets",
    "config/topics",
    "config/subscriptionGroups",
    "config/rdb",
)


def find_kinds(paths: StorePaths) -> tuple[StoreKind, ...]:
    """Find the kinds of a store by its files. Only names are listed, and the start of some files of each log is read.

    Parameters
    ----------
    paths : StorePaths

    Returns
    -------
    tuple of StoreKind
        Empty for a store of plain files. A directory that is missing or cannot be listed shows no kind.
    """
    return tuple(
        StoreKind(name, place, rule.sentence, rule.writable, rule.hint)
        for name, place in _found(paths)
        for rule in (RULES[name],)
    )


def name_logs_beside(error: CommitLogMissingError, paths: StorePaths) -> None:
    """Name directories in the root with files of a log in the error's hint, instead of a way to continue without."""
    beside = [kind.place for kind in find_kinds(paths) if kind.name == "log_elsewhere"]
    if beside:
        given = [folder for folder in paths.commitlogs if _holds_records(folder)]
        found = [*given, *(paths.root / place for place in beside)]
        folders = PATH_SPLITTER.join(map(os.fspath, found))
        error.hint = (
            f"the root holds files of a log in {', '.join(beside)}: name all directories of the log in store_path_commit_log "
            f"(--commitlog {shlex.quote(folders)})"
        )


def refuse_to_write(paths: StorePaths) -> None:
    """Check that rmqcore writes stores of this kind.

    Raises
    ------
    StoreKindError
        rmqcore does not write this kind; no file was touched.
    """
    for kind in find_kinds(paths):
        if not kind.writable:
            raise StoreKindError(paths.location, kind.name, kind.place, kind.sentence, kind.hint)
    for folder in paths.commitlogs:
        if is_of_no_log(folder):
            raise StoreKindError(
                paths.location,
                "unknown_log",
                _shown(paths, folder),
                "the files in the log's directory have names of CommitLog files, but the first of them "
                "do not start with a record",
                "name the directory of the CommitLog (storePathCommitLog); if all of the log is damaged, salvage what is left: "
                "rmqcore salvage STORE OUT",
            )


def unwritten_topics(paths: StorePaths) -> frozenset[str]:
    """Compacted topics and those of batch queues, to which no message may be put: by directories and ``config/topics.json``.

    Raises
    ------
    LinkError
        ``batchconsumequeue``, ``compaction`` or a directory in it is a link.
    """
    return batch_topics(paths) | configured_batch_topics(paths) | compacted_topics(paths)


def tiered_topics(paths: StorePaths, topics: Iterable[str]) -> dict[str, str]:
    """Return the topics that may have messages in a tiered store, and a sentence that says so; rmqcore does not read it."""
    return _tiered(lambda place: _names(paths.root / place), topics)


def kept_elsewhere(paths: StorePaths, topics: Iterable[str]) -> dict[str, str]:
    """Return the topics that may have messages outside of the log, and their places, by names of directories alone.

    Parameters
    ----------
    paths : StorePaths
    topics : iterable of str

    Returns
    -------
    dict
        By topic, a sentence. A compacted one has a directory in ``compaction/compactionLog``; a tiered store may hold
        any.
    """
    return kept_by_names(lambda place: _names(paths.root / place), topics)


def kept_by_names(names: Callable[[str], Collection[str]], topics: Iterable[str]) -> dict[str, str]:
    """Do the work of `kept_elsewhere`; `names` lists a directory by its place in the root, empty if it is missing."""
    asked = list(topics)
    found = _tiered(names, asked)
    for topic in names(COMPACTED) if asked else ():
        queues = names(f"{COMPACTED}/{topic}") if topic in asked else ()
        if any(parse_queue_id(one) is not None for one in queues):
            found[topic] = (
                f"{COMPACTED}/{topic} has the newest message of each key: `rmqcore get` and "
                "`rmqcore cat --compacted` read it"
            )
    return found


def _tiered(names: Callable[[str], Collection[str]], topics: Iterable[str]) -> dict[str, str]:
    asked = list(topics)
    if asked and any(
        place.rpartition("/")[2] in names(place.rpartition("/")[0]) for place in TIERED
    ):
        return dict.fromkeys(asked, f"older messages may be in the tiered store, {NOT_READ}")
    return {}


def in_rocksdb(paths: StorePaths) -> Path | None:
    """Find the directory of the RocksDB database that holds a store's queues; None where they are in files."""
    for folder in (paths.consumequeue, paths.root / ROCKSDB_FOLDER):
        if any(map(is_of_database, _names(folder))):
            return folder
    return None


def is_of_database(name: str) -> bool:
    """Return True if RocksDB uses this file name."""
    return _DATABASE.fullmatch(name) is not None


def rocksdb_place(paths: StorePaths) -> Path | None:
    """Find the directory of the database from which a store's queues are read; None if it has queue files.

    A broker that writes both (rocksdbCQDoubleWriteEnable) reads the files, unless a setting changes that.
    """
    place = in_rocksdb(paths)
    return None if place is None or first_topic(paths.consumequeue) is not None else place


def index_database_place(paths: StorePaths) -> Path | None:
    """Find the database in ``rocksdbstore/``; None if there is none, or if it is empty.

    An index, timers and transactions lie in it: only its column families say which. Empty ones have no table, and no byte in the
    write-ahead logs.
    """
    folder = paths.root / INDEX_DATABASE
    return folder if any(_has_entries(folder, name) for name in _names(folder)) else None


def _has_entries(folder: Path, name: str) -> bool:
    """Return True if a file of a database holds entries."""
    if not is_of_database(name):
        return False
    if name.endswith(".log"):
        with suppress(OSError):  # a broker deleted it
            return (folder / name).lstat().st_size > 0
        return False
    return name.endswith(".sst")


def holds_database(names: Mapping[str, bool]) -> bool:
    """Return True if a directory with these names is a database without file queues; each name says if it is a directory."""
    return not any(names.values()) and any(map(is_of_database, names))


def dledger_folders(paths: StorePaths) -> list[Path]:
    """List the directories ``dledger-*/data`` in a store's root that hold files of a log, by name."""
    folders = (
        paths.root / name / "data"
        for name in sorted(_names(paths.root))
        if _DLEDGER.fullmatch(name)
    )
    return [folder for folder in folders if _log_files(folder)]


def is_dledger_name(place: str) -> bool:
    """Return True if a path in a store's root is that of a DLedger log: ``dledger-SELFID/data``.

    Notes
    -----
    Source: DLedger 0.3.1.2 DLedgerConfig#getDataStorePath.
    """
    name, _, rest = place.partition("/")
    return rest == "data" and _DLEDGER.fullmatch(name) is not None


def is_dledger_log(folder: Path) -> bool:
    """Return True if the files of a log's directory start with the header of a DLedger entry and a record.

    The first files and the last one are read, so that damage in one file does not change the result.
    """
    files = _log_files(folder)
    return any(_begins_with_head(folder / name) for name in {*files[:ASKED_FILES], *files[-1:]})


def is_of_no_log(folder: Path) -> bool:
    """Return True if the first files of a log's directory hold something else than a log, such as queue entries.

    At least two must start with other bytes than a record: damage or a crash may do that to one.
    """
    others = 0
    for name in _log_files(folder)[:ASKED_FILES]:
        beginning = _start_of(folder / name, BEGINNING)
        if not any(beginning):
            continue
        magic = int.from_bytes(beginning[REC_MAGIC : REC_MAGIC + 4], "big", signed=True)
        if magic == MAGIC_BLANK or log_kind(beginning) is not LogKind.UNKNOWN:
            return False
        others += 1
    return others > 1


class LogKind(Enum):
    """Whose log a file belongs to."""

    ROCKETMQ = auto()
    DLEDGER = auto()
    UNKNOWN = auto()


def log_kind(beginning: bytes) -> LogKind:
    """Find the kind of a log by the first `BEGINNING` bytes of one of its files.

    Notes
    -----
    Source: DLedger 0.3 DLedgerEntryCoder#decode: 1 in the first int (2 of an entry without a message), the record at
    48.
    """
    if _is_magic(beginning[REC_MAGIC : REC_MAGIC + 4]):
        return LogKind.ROCKETMQ
    if int.from_bytes(beginning[:4], "big") == 1 and _is_magic(
        beginning[DLEDGER_HEAD_SIZE + REC_MAGIC :]
    ):
        return LogKind.DLEDGER
    return LogKind.UNKNOWN


def _found(paths: StorePaths) -> Iterator[tuple[str, str]]:
    """The name and the place of each kind."""
    database = in_rocksdb(paths)
    if database is not None:
        files = first_topic(paths.consumequeue) is not None
        yield ("double_write" if files else "rocksdb_queues"), _shown(paths, database)
    logs = [folder for folder in paths.commitlogs if is_dledger_log(folder)]
    for folder in (*logs, *(one for one in dledger_folders(paths) if one not in logs)):
        yield "dledger", _shown(paths, folder)
    if first_topic(paths.batchconsumequeue) is not None or configured_batch_topics(paths):
        yield "batch_queues", "batchconsumequeue"
    if first_topic(paths.consumequeue_ext) is not None:
        yield "consumequeue_ext", "consumequeue_ext"
    # cut/ holds what a recovery cut from the log.
    given = {os.path.realpath(folder) for folder in (*paths.commitlogs, paths.cut)}
    for name in sorted(_names(paths.root)):
        folder = paths.root / name
        if os.path.realpath(folder) not in given and _holds_records(folder):
            yield "log_elsewhere", name
    if first_topic(paths.root / "compaction" / "compactionLog") is not None:
        yield "compaction", "compaction/compactionLog"
    if os.path.lexists(paths.root / "timerwheel"):
        yield "timer", "timerwheel"
    if any(name.startswith(REVIVE_TOPIC_PREFIX) for name in _names(paths.consumequeue)):
        yield "pop", f"consumequeue/{REVIVE_TOPIC_PREFIX}*"
    if os.path.lexists(paths.config / "lmqConsumerOffset.json"):
        yield "lmq", "config/lmqConsumerOffset.json"
    for place in TIERED:
        if os.path.lexists(paths.root / place):
            yield "tiered", place
            break
    if os.path.lexists(paths.root / "epochFileCheckpoint"):
        yield "controller", "epochFileCheckpoint"
    if index_database_place(paths) is not None:
        yield "rocksdb_index", INDEX_DATABASE
    for place in _CONFIG_IN_ROCKSDB:
        if any(map(is_of_database, _names(paths.root / place))):
            yield "rocksdb_config", place
            break


def _shown(paths: StorePaths, place: Path) -> str:
    return str(place.relative_to(paths.root) if place.is_relative_to(paths.root) else place)


def _names(folder: Path) -> list[str]:
    """Return names in a directory, at most `_MOST_NAMES`; none if it cannot be listed, which other checks report."""
    try:
        with os.scandir(folder) as found:
            return [entry.name for entry, _ in zip(found, range(_MOST_NAMES), strict=False)]
    except OSError:
        return []


def _log_files(folder: Path) -> list[str]:
    return sorted(name for name in _names(folder) if parse_file_name(name) is not None)


def _begins_with_head(path: Path) -> bool:
    return log_kind(_start_of(path, BEGINNING)) is LogKind.DLEDGER


def _holds_records(folder: Path) -> bool:
    """Return True if the oldest file of a directory starts with a record, like those of a CommitLog."""
    return any(
        _is_magic(_start_of(folder / name, REC_MAGIC + 4)[REC_MAGIC:])
        for name in _log_files(folder)[:1]
    )


def _is_magic(four: bytes) -> bool:
    return int.from_bytes(four, "big", signed=True) in (MAGIC_V1, MAGIC_V2)


def _start_of(path: Path, count: int) -> bytes:
    """Return the first bytes of a file; none if it cannot be read, which other checks report."""
    try:
        return read_range(os.fspath(path), 0, count)
    except (OSError, StoreError):
        return b""


def first_topic(folder: Path) -> str | None:
    """Return the first directory with directories of queues in it; None if no directory has one."""
    for name in _names(folder):
        if any(parse_queue_id(queue) is not None for queue in _names(folder / name)):
            return name
    return None
