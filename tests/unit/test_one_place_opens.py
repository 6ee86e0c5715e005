"""Files are opened, made, renamed and deleted in one place, `rmqcore.disk.inside`: a call elsewhere would follow a link.

`SHORT_LIST` names the calls elsewhere, each with the reason why it may be there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT

PACKAGE = ROOT / "rmqcore"
NATIVE = ROOT / "src" / "rmqcore" / "_native"
PLACE = "disk/inside/"

SHORT_LIST: dict[str, dict[str, str]] = {
    "config/broker_conf.py": {"Path.open": "a configuration file, which the caller names"},
    "cli/common/errors.py": {"os.open": "/dev/null"},
    "cli/common/output.py": {
        "Path.open": "the output that the caller names; a new file is made beside it",
        "Path.replace": "the new file takes the output's place",
        "Path.unlink": "the new file, after an error",
    },
    "cli/spark/session.py": {
        "Path.open": "the log of Spark, which the caller names",
        "tempfile": "the log of Spark in a file without a name",
    },
    "disk/locks/foreign_writer.py": {"Path.read_text": "/proc"},
    "disk/locks/directory_lock.py": {"Path.read_text": "/proc/locks"},
    "offline/export/partitions.py": {
        "Path.mkdir": "the folder that the caller names",
        "tempfile": "a working folder in it with a name of its own, which only this user may enter",
    },
    "offline/remote/skeleton.py": {
        "tempfile": "a folder for the files of a store behind a URL, which only this user may enter",
    },
    "offline/rocksdb/view.py": dict.fromkeys(
        ("Path.symlink_to", "open", "tempfile"),
        "links to the files of a database in a temporary folder that only this user may enter",
    ),
    "offline/export/part_files.py": {"Path.open": "a file in that working folder"},
    "offline/export/parquet_parts.py": dict.fromkeys(
        ("Path.mkdir", "Path.open", "Path.unlink", "Path.read_bytes"),
        "a file in that working folder, or in that of an attempt of a task",
    ),
    "spark/runtime/java.py": dict.fromkeys(
        ("Path.chmod", "Path.mkdir", "Path.read_text", "Path.replace", "tempfile"),
        "the command that starts Java, in a folder of this user",
    ),
    "spark/storage/remote_copy.py": dict.fromkeys(
        ("Path.mkdir", "Path.open", "tempfile"),
        "a copy in a temporary folder that only this user may enter",
    ),
}

OF_OS = {
    "open", "unlink", "remove", "rename", "renames", "replace", "truncate", "mkdir", "makedirs", "rmdir", "removedirs", "symlink",
    "link", "mknod", "mkfifo", "chmod", "chown",
}  # fmt: skip
OF_PATH = {
    "unlink", "rename", "rmdir", "mkdir", "touch", "write_bytes", "write_text", "read_bytes", "read_text", "symlink_to",
    "hardlink_to", "chmod",
}  # fmt: skip
MODE = re.compile(r"[rwaxbt+]+")


def calls(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each call that opens, makes, renames or deletes by a path."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (name := name_of(node)) is not None:
            yield node.lineno, name


def name_of(call: ast.Call) -> str | None:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in {"open", "Descriptor"} else None
    if not isinstance(function, ast.Attribute):
        return None
    owner, name = ast.unparse(function.value), function.attr
    if owner == "os":
        return f"os.{name}" if name in OF_OS else None
    if owner in {"shutil", "tempfile"}:
        return None if name in {"get_terminal_size", "which"} else owner
    if name == "open" and (not call.args or is_mode(call.args[0])):
        return "Path.open" if not call.keywords or call.args else None
    if (
        name == "replace"
        and len(call.args) == 1
        and not call.keywords
        and not owner.endswith("files")
    ):
        return "Path.replace"
    return f"Path.{name}" if name in OF_PATH else None


def is_mode(given: ast.expr) -> bool:
    return (
        isinstance(given, ast.Constant)
        and isinstance(given.value, str)
        and MODE.fullmatch(given.value) is not None
    )


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith((PLACE, "testing/")):  # testing breaks stores of its own
            yield name, path


def test_files_are_opened_in_one_place() -> None:
    found = [
        f"rmqcore/{name}:{line}: {call}"
        for name, path in modules()
        for line, call in calls(path.read_text(encoding="utf-8"))
        if call not in SHORT_LIST.get(name, {})
    ]
    assert found == []


def test_the_list_is_no_longer_than_it_must_be() -> None:
    used = {
        (name, call)
        for name, path in modules()
        for _, call in calls(path.read_text(encoding="utf-8"))
    }
    listed = {(name, call) for name, few in SHORT_LIST.items() for call in few}
    assert listed - used == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "os.open(path, 0)",
        "Path(x).open()",
        "path.open('rb')",
        "shutil.rmtree(x)",
        "path.unlink(missing_ok=True)",
        "path.parent.mkdir()",
        "working.replace(target)",
        "os.replace(a, b)",
        "Descriptor(path, 0)",
        "path.write_text('x')",
        "tempfile.mkdtemp()",
    ],
)
def test_the_calls_that_are_found(line: str) -> None:
    assert len(list(calls(line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "replace(self, x=1)",
        "text.replace('a', 'b')",
        "file.open(unreadable)",
        "self.inside.delete(x)",
        "unlink(path)",
    ],
)
def test_other_calls(line: str) -> None:
    assert list(calls(line)) == []


# ---- C ----------------------------------------------------------------------------------------------

OF_C = re.compile(
    r"(?<![\w.>])(f?open(?:at|dir)?|creat|unlink(?:at)?|remove|rename(?:at)?|mkdir(?:at)?|rmdir|truncate|symlink|link|mkstemp)\("
)
ALLOWED_IN_C = {
    ("queues/cq_files.c", "open"): "without following a link where it is a file",
    ("queues/cq_files.c", "mkdir"): "a folder of a topic or queue",
    ("queues/cq_files.c", "unlink"): "a file that was made a moment ago",
    ("queues/cq_put.c", "unlink"): "likewise",
    ("files/mapping.c", "open"): "without following a link",
}


def without_comments(text: str) -> str:
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', "", text, flags=re.DOTALL)


def test_kernels_open_files_without_following_links() -> None:
    found = set()
    for path in sorted(NATIVE.rglob("*.[ch]")):
        text = without_comments(path.read_text(encoding="utf-8"))
        name = path.relative_to(NATIVE).as_posix()
        calls_of = {match[1] for match in OF_C.finditer(text)}
        found |= {(name, call) for call in calls_of}
        assert "open" not in calls_of or ("O_NOFOLLOW" in text and "S_ISREG" in text), name
    assert found == set(ALLOWED_IN_C)
