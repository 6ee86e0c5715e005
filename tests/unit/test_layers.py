"""Layers that import-linter cannot see: what the extension modules import, and C kernels without Python.

An extension sits below all Python modules. It may raise the package's errors, which import nothing; every other arrow
up is listed here with its reason.
"""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

from support.places import ROOT

NATIVE = ROOT / "src" / "rmqcore" / "_native"
KERNELS = [*NATIVE.glob("*/*.[ch]")]
ROOMS_BELOW = {
    "crc32": (),
    "format": ("crc32",),  # a record is checked and encoded with its CRC
    "scan": ("format", "crc32"),
    "text": ("format",),
    "files": (),
    "put": ("format", "crc32", "files"),
    "queues": ("format",),
    "index": ("format",),
    "threads": (),
    "dispatch": ("scan", "put", "queues", "index", "format", "crc32", "threads"),
    "broker": ("put", "format", "crc32"),
}
"""Of each room: the kernels of which others its kernels may include."""
EXTENSIONS = [
    path
    for path in [*NATIVE.rglob("*.pyx"), *NATIVE.rglob("*.pxd")]
    if path.name != "kernels.pxd"  # declarations of all kernels, in no room
]
EXTENSIONS_BELOW = {
    "threads": (),
    "format": (),
    "text": ("format",),
    "files": ("format",),
    "scan": ("format", "threads"),
    "put": ("format", "threads", "files"),
    "queues": ("format", "scan", "files"),
    "index": ("format", "scan", "put", "files"),
    "dispatch": ("format", "threads", "scan", "put", "queues", "index"),
    "broker": ("format", "put"),
}
"""Of each room of extensions: the rooms that it may import."""
ALLOWED_UP = {
    ("format.codec", "rmqcore.shown.notebook"): "what a notebook shows: imported when it asks",
    ("put.message", "rmqcore.shown.notebook"): "likewise",
    ("put.put_result", "rmqcore.shown.notebook"): "likewise",
    ("queues.get", "rmqcore.shown.notebook"): "likewise",
    ("index.query", "rmqcore.shown.notebook"): "likewise",
    ("format.codec", "rmqcore.errors"): "errors import nothing, so that native code may raise them",
    ("files.mapped_file", "rmqcore.errors"): "likewise",
    ("threads.mutex", "rmqcore.errors"): "likewise",
    ("put.put_result", "rmqcore.errors"): "likewise",
    ("put.message", "rmqcore.errors.arguments"): "likewise",
    ("put.arrow_rows", "rmqcore.errors.near_names"): "likewise",
    ("format.codec", "rmqcore.errors.arguments"): "likewise",
    ("format.cq_arrays", "rmqcore.errors.arguments"): "likewise",
    ("format.ids", "rmqcore.errors.arguments"): "likewise",
    ("format.message_batch", "rmqcore.errors"): "likewise",
    ("put.encode", "rmqcore.errors.arguments"): "likewise",
    ("scan.batch", "rmqcore.errors.near_names"): "likewise",
    (
        "put.put_result",
        "rmqcore.vocabulary.status",
    ): "status imports nothing, so that native code may answer it",
    ("queues.get", "rmqcore.vocabulary.status"): "likewise",
    (
        "format.codec",
        "rmqcore.codec.compression",
    ): "MessageView.decompress(), inside the call: ZLIB, LZ4 and ZSTD are Python's",
}
STATEMENT = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+c?import\b|c?import\s+([\w., ]+))",
    re.MULTILINE,
)


def names(source: str) -> set[str]:
    """Modules that a Cython source imports or cimports, each once."""
    found = set()
    for start, plain in STATEMENT.findall(source):
        parts = [start] if start else [part.split(" as ")[0].strip() for part in plain.split(",")]
        found.update(parts)
    return found


def ours(source: str) -> set[str]:
    """Of these the package's own modules: an extension as ``room.name``, every other module with the package's name."""
    own = {name for name in names(source) if name.partition(".")[0] in ("rmqcore", "")}
    assert not [name for name in own if name.startswith(".")], "extensions name each other in full"
    return {name.removeprefix("rmqcore._native.") for name in own} - {"kernels"}


def place(path: Path) -> str:
    """An extension as ``room.name``."""
    return f"{path.parent.name}.{path.stem}"


def test_extensions_import_the_rooms_below_them_and_errors() -> None:
    assert len(EXTENSIONS) > 50
    wrong = []
    for path in EXTENSIONS:
        room = path.parent.name
        for name in sorted(ours(path.read_text(encoding="utf-8"))):
            if name.startswith("rmqcore"):
                may = (place(path), name) in ALLOWED_UP
            else:
                may = name.partition(".")[0] in (room, *EXTENSIONS_BELOW[room])
            if not may:
                wrong.append(f"{room}/{path.name} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_extensions_of_a_room_have_no_circle() -> None:
    arrows = {
        place(path): ours(path.read_text(encoding="utf-8")) - {place(path)} for path in EXTENSIONS
    }
    TopologicalSorter(arrows).prepare()  # raises CycleError


def test_every_allowed_arrow_up_is_still_there() -> None:
    assert set(ALLOWED_UP) <= {
        (place(path), name)
        for path in EXTENSIONS
        for name in ours(path.read_text(encoding="utf-8"))
    }


def test_the_reader_of_imports_knows_every_form() -> None:
    source = "cimport a.b\nfrom .c cimport x\nimport d, e as f\n    from rmqcore._native.g import (\n# import h\nfrom . import i"
    assert names(source) == {"a.b", ".c", "d", "e", "rmqcore._native.g", "."}


def test_kernels_know_no_python_and_only_the_rooms_below_them() -> None:
    assert len(KERNELS) > 50
    wrong = []
    for path in sorted(KERNELS):
        room = path.parent.name
        for name in re.findall(
            r"^\s*#\s*include\s*([<\"][^>\"]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if name.startswith('"'):
                may = place_of(path, name.strip('"')) in (room, *ROOMS_BELOW[room])
            else:
                may = name != "<Python.h" and not name.startswith("<numpy")
            if not may:
                wrong.append(f"{room}/{path.name} includes {name[1:]}")
    assert not wrong, "\n".join(wrong)


def place_of(path: Path, name: str) -> str:
    """The room that an include names: from the file's own folder, as public headers do, or from the folder of all rooms."""
    beside = (path.parent / name).resolve()
    return beside.parent.name if beside.exists() else name.partition("/")[0]


def test_every_kernel_is_in_a_room() -> None:
    assert {path.parent.name for path in KERNELS} == set(ROOMS_BELOW)
    assert not list(NATIVE.glob("*.[ch]"))


def test_every_extension_is_in_a_room() -> None:
    assert {path.parent.name for path in EXTENSIONS} == set(EXTENSIONS_BELOW)


def test_inside_the_package_modules_are_named_and_not_taken_from_the_top() -> None:
    """`from rmqcore import read` in a low module would reach up where import-linter cannot see it."""
    package = ROOT / "rmqcore"
    paths = sorted(package.rglob("*.py"))
    assert len(paths) > 100
    wrong = []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.ImportFrom) and node.module == "rmqcore"):
                continue
            for name in (alias.name for alias in node.names):
                module = package / name
                is_module = module.with_suffix(".py").exists() or module.is_dir()
                if not is_module and name != "__version__":
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_headings_of_docstrings_stand_alone() -> None:
    """A tool that filled paragraphs had joined twenty of them with their text."""
    joined = [
        f"{path}: {line.strip()}"
        for path in sorted([*(ROOT / "rmqcore").rglob("*.py*"), *NATIVE.rglob("*.pyx")])
        if path.suffix in (".py", ".pyi", ".pyx")
        for line in path.read_text().splitlines()
        if re.match(r" *[A-Z][A-Za-z]+ -{3,} ", line)
    ]
    assert joined == []
