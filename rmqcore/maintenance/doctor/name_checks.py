"""Checks of names, sizes and kinds of files: fsck's findings that need no read."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from rmqcore._native.format.layout import MAGIC_V1, MAGIC_V2, REC_MAGIC, REC_PHYSICALOFFSET
from rmqcore.disk.paths import file_name
from rmqcore.disk.read_range import left_out, read_range
from rmqcore.disk.store_kinds import StoreKind, find_kinds
from rmqcore.errors import RocksdbError, RocksdbMissingError, is_unreadable
from rmqcore.maintenance.doctor.kinds import FSCK
from rmqcore.maintenance.doctor.patient import MOST_EVIDENCE, Patient, evidence_of
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.offline.fsck.compaction import check_compaction_files
from rmqcore.offline.fsck.file_kinds import note_odd_parts
from rmqcore.offline.fsck.file_names import check_index_files, check_log_files
from rmqcore.offline.fsck.findings import ERROR, INFO, Findings
from rmqcore.offline.fsck.queue_names import QueueNames
from rmqcore.offline.info import LOG_ONLY
from rmqcore.offline.log.log_files import mapped_file_size
from rmqcore.offline.log.walk import gap_between
from rmqcore.offline.queues.queues import each_batch_queue
from rmqcore.offline.rocksdb.index_database import asked_index

ANYWHERE = {"file_kind": "odd_files", "unreadable": "unreadable"}
LOG_KINDS = {
    "file_size": "log_file_size",
    "file_name": "log_file_name",
    "missing_file": "log_missing",
    "file_twice": "log_file_twice",
    **ANYWHERE,
}


def check_names(patient: Patient) -> Iterator[Diagnosis]:
    """Names and sizes of all files."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    log, queues, index, parts, compaction = (Findings(MOST_EVIDENCE) for _ in range(5))
    odd = note_odd_parts(patient.paths, parts)
    check_log_files(patient.paths, patient.files, log)
    if patient.paths.consumequeue not in odd:
        QueueNames(patient.paths, queues).check()
    if patient.paths.index not in odd:
        check_index_files(patient.paths, index)
    if patient.paths.compaction not in odd:
        check_compaction_files(patient.paths, compaction)
    for findings, kinds, other in (
        (parts, LOG_KINDS, "odd_files"),
        (log, LOG_KINDS, "log_file_name"),
        (queues, ANYWHERE, "queue_files"),
        (index, ANYWHERE, "index_files"),
        (compaction, ANYWHERE, "compaction_files"),
    ):
        for finding in findings.items:
            if finding.severity != INFO and (finding.severity == ERROR or findings is index):
                found[kinds.get(finding.kind, other)].append(evidence_of(finding))
    for name, evidence in found.items():
        first = patient.paths.root / evidence[0].path
        yield patient.diagnosis(name, evidence, unreadable=first)


def _check_database(patient: Patient, place: str) -> Iterator[Diagnosis]:
    """Queues in RocksDB: that they are there, and whether they can be read."""
    error = patient.database_error
    if isinstance(error, RocksdbError):
        evidence = Evidence(patient.shown(str(error.filename)), error.strerror or str(error))
        yield patient.diagnosis("rocksdb_damaged", [evidence])
        return
    what = "read" if error is None else f"not looked at: {error.hint}"
    yield patient.diagnosis("rocksdb_queues", [Evidence(place, what)])


def _check_index(patient: Patient, *, settled: bool) -> Iterator[Diagnosis]:
    """Yield an index that is missing, in files and in RocksDB, and a database that cannot be read."""
    index = patient.paths.index
    no_files = not (index.is_dir() and any(index.iterdir()))
    try:
        in_rocksdb = asked_index(patient.paths, has_files=False).database is not None
    except RocksdbMissingError:  # `check_kind` says that it is not looked at
        return
    except RocksdbError as error:
        yield patient.diagnosis(
            "index_files",
            [Evidence(patient.shown(str(error.filename)), error.strerror or str(error))],
        )
        return
    if settled and no_files and not in_rocksdb:
        yield patient.diagnosis("index_missing", [Evidence("index", "no file", "files")])


def _sentence_of(kind: StoreKind) -> str:
    """What is said of a kind; of an index in RocksDB also that it is not looked at without the package."""
    if kind.name == "rocksdb_index" and find_spec("rocksdict") is None:
        return f"{kind.sentence}; not looked at: {RocksdbMissingError.hint}"
    return kind.sentence


def check_kind(patient: Patient) -> Iterator[Diagnosis]:
    """Report parts of the store that are not plain files."""
    kinds = find_kinds(patient.paths)
    if kinds:
        yield patient.diagnosis(
            "store_kind", [Evidence(kind.place, _sentence_of(kind)) for kind in kinds]
        )


def check_holes(patient: Patient) -> Iterator[Diagnosis]:
    """Files of the log that are missing between others, or lack their ends."""
    size = mapped_file_size(patient.files)
    found: dict[str, list[Evidence]] = defaultdict(list)
    for one, other in pairwise(patient.files):
        for gap in gap_between(one, other, size):
            short = gap.kind == "short_file"
            lacks = f"{gap.byte_count} bytes are missing"
            what = f"{lacks} at its end" if short else f"missing; {lacks} with it"
            name = "log_file_size" if short else "log_hole"
            found[name].append(Evidence(gap.path, what, gap.expected, gap.start_phy_offset))
    for name, evidence in found.items():
        yield patient.diagnosis(name, evidence)


def check_places(patient: Patient) -> Iterator[Diagnosis]:
    """Yield files whose first record names another offset."""
    moved = []
    for facts in patient.log.files:
        start = facts.file.file_from_offset
        if facts.first is not None and facts.first.phy_offset == start:
            continue
        try:
            head = read_range(facts.file.location, 0, REC_PHYSICALOFFSET + 8)
        except OSError as error:
            if not is_unreadable(error):
                raise
            yield patient.unreadable(facts.file.location, error)
            continue
        magic = int.from_bytes(head[REC_MAGIC : REC_MAGIC + 4], "big", signed=True)
        says = int.from_bytes(head[REC_PHYSICALOFFSET:], "big", signed=True)
        if magic in (MAGIC_V1, MAGIC_V2) and says != start:
            patient.moved[facts.file.name] = says
            moved.append(Evidence(facts.file.name, f"its first record says {says}", start, start))
    if moved:
        yield patient.diagnosis("moved_log", moved, command=_renames(patient, moved))


def _renames(patient: Patient, moved: list[Evidence]) -> str | None:
    """Return the command that renames files by their first records; None if a name is in use, or no name fits."""
    size = mapped_file_size(patient.files)
    by_name = {file.name: file for file in patient.files}
    pairs = {Path(by_name[name].path): says for name, says in patient.moved.items()}
    targets = {path: path.with_name(file_name(says)) for path, says in pairs.items() if says >= 0}
    free = all(target in pairs or not os.path.lexists(target) for target in targets.values())
    known = len(moved) == len(targets) == len(set(targets.values())) <= MOST_EVIDENCE
    if not (known and free and size and all(says % size == 0 for says in pairs.values())):
        return FSCK.format(store=shlex.quote(os.fspath(patient.paths.root)))
    # Each name is free when its turn comes, where all files were moved the same way; else mv -n leaves the file.
    down = all(target.name < path.name for path, target in targets.items())
    quoted = [
        " ".join(("mv -n", shlex.quote(os.fspath(path)), shlex.quote(os.fspath(targets[path]))))
        for path in sorted(targets, reverse=not down)
    ]
    return " && ".join(quoted)


def check_parts(patient: Patient) -> Iterator[Diagnosis]:
    """Yield missing parts: queues, index and log."""
    paths = patient.paths
    if patient.is_log_only:
        yield patient.diagnosis("log_only", [Evidence(".", LOG_ONLY)])
        return
    settled = (
        patient.has_messages and patient.holder is None
    )  # else they may be made a moment later
    if patient.database is not None:
        yield from _check_database(patient, patient.shown(patient.database))
    elif (
        settled
        and not patient.queues
        and patient.all_queues_listed
        and next(each_batch_queue(paths, left_out), None) is None
    ):
        yield patient.diagnosis("queues_missing", [Evidence("consumequeue", "no queue", "queues")])
    if not patient.files and any(queue.files for queue in patient.queues):
        yield patient.diagnosis(
            "log_missing", [Evidence(patient.shown(paths.commitlog), "no file of the log", "files")]
        )
    yield from _check_index(patient, settled=settled)
    if paths.cut.is_dir() and not paths.cut.is_symlink():
        kept = sorted(path for path in paths.cut.rglob("*") if path.is_file())
        if kept:
            evidence = [
                Evidence(patient.shown(path), f"{path.lstat().st_size} bytes") for path in kept
            ]
            yield patient.diagnosis("cut_away", evidence)
