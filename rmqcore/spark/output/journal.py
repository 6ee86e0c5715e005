"""The last steps of a commit: a part's folder moves to its place in `out`, then the manifest and ``_SUCCESS`` are written.

Names in `out`: ``consumequeue`` and ``index``, the parts; ``manifest.json``; ``_SUCCESS``, which exists whenever the
manifest describes all parts as they are; ``_temporary``, which exists only while a job runs or after a job was killed.
The journal is ``_temporary/commit.json``: once it is on disk the commit happens, and if this process dies, the next
process that opens the folder finishes the commit.

A crash before the journal leaves `out` as it was. After the journal every step can be repeated: `finish` does the steps that
are left.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.swap import PARTS
from rmqcore.errors import StoreFormatError, TargetNotEmptyError
from rmqcore.spark.output.job_folder import JOURNAL, TEMPORARY, discard_jobs

SUCCESS, MANIFEST = "_SUCCESS", "manifest.json"
ASSEMBLED, REPLACED = "commit", "replaced"
VERSION = 1
_JOB = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Journal:
    """A folder that is to take its place in `out`.

    Attributes
    ----------
    job : str
        Folder below ``_temporary``; its ``commit/PART`` is the new folder.
    part : str
        ``consumequeue`` or ``index``.
    entry : dict
        The manifest's entry for the part.
    """

    job: str
    part: str
    entry: dict[str, Any]


def read_manifest(out: Folder) -> dict[str, dict[str, Any]]:
    """Return the parts that the manifest of a folder names; an empty dict if there is no manifest.

    Raises
    ------
    TargetNotEmptyError
        The file is not a manifest made by this package.
    """
    try:
        found = json.loads(out.read(MANIFEST))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise TargetNotEmptyError(
            f"{out.path / MANIFEST} is not the manifest of a rebuild: {error}"
        ) from error
    parts = found.get("parts") if isinstance(found, dict) else None
    if (
        not isinstance(parts, dict)
        or found.get("version") != VERSION
        or not all(isinstance(part, dict) for part in parts.values())
    ):
        raise TargetNotEmptyError(f"{out.path / MANIFEST} is not the manifest of a rebuild")
    return parts


def read_journal(out: Folder, fields: set[str]) -> dict[str, Any] | None:
    """Return the journal of a commit that was started and not finished; None if no journal exists.

    Raises
    ------
    TargetNotEmptyError
        The journal is that of another kind of job, and only that kind of job can finish its commit.
    """
    path = out.path / TEMPORARY / JOURNAL
    try:
        found = json.loads(out.read(f"{TEMPORARY}/{JOURNAL}"))
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict) or set(found) != fields:
        raise TargetNotEmptyError(
            f"{path} belongs to a job of another kind that was killed during its commit: run that "
            f"job again, or remove {path.parent} and the files that it left"
        )
    return found


def commit(out: Folder, journal: Journal) -> None:
    """Move an assembled folder, whose files are synced, to its place."""
    out.write(f"{TEMPORARY}/{JOURNAL}", json.dumps(asdict(journal)).encode())
    finish(out)


def finish(out: Folder) -> None:
    """Finish an interrupted commit, if the folder has one.

    Raises
    ------
    StoreFormatError
        The journal names an impossible job or part, so another program wrote it. Nothing was moved.
    LinkError
        A name on the way is a link.
    """
    found = read_journal(out, {"job", "part", "entry"})
    if found is None:
        return
    _check(out, found)
    journal = Journal(**found)
    job = f"{TEMPORARY}/{journal.job}"
    assembled = f"{job}/{ASSEMBLED}/{journal.part}"
    is_there = out.is_folder(assembled)  # else an earlier try has moved it to its place
    out.delete(SUCCESS, missing_ok=True)
    out.sync()
    if is_there:
        if out.status(journal.part) is not None:
            out.move(journal.part, f"{job}/{REPLACED}")
        out.move(assembled, journal.part)
        out.sync()
    parts = read_manifest(out) | {journal.part: journal.entry}
    document = {"version": VERSION, "parts": dict(sorted(parts.items()))}
    out.write(MANIFEST, json.dumps(document, indent=1).encode() + b"\n")
    out.write(SUCCESS, b"")
    out.delete(f"{TEMPORARY}/{JOURNAL}")


def _check(out: Folder, found: dict[str, Any]) -> None:
    job, part = found["job"], found["part"]
    sound = isinstance(job, str) and _JOB.fullmatch(job) is not None
    if not sound or part not in PARTS or not isinstance(found["entry"], dict):
        path = out.path / TEMPORARY / JOURNAL
        expected = f"32 hex digits and one of {', '.join(PARTS)}"
        raise StoreFormatError(f"{path}: job is {job!r} and part {part!r}, expected {expected}")


def discard(out: Folder) -> None:
    """Remove what jobs left behind."""
    discard_jobs(out)
    for name in (MANIFEST, SUCCESS):  # a write may have died before it renamed its file
        out.delete(f".{name}.tmp", missing_ok=True)
    out.sync()


def unknown_names(out: Folder, parts: tuple[str, ...]) -> list[str]:
    """Return the names in a folder that no rebuild made."""
    ours = {TEMPORARY, SUCCESS, MANIFEST, f".{MANIFEST}.tmp", f".{SUCCESS}.tmp", *parts}
    return sorted(set(out.names()) - ours)
