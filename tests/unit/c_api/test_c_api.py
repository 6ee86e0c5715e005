"""The C API as other projects use it: headers alone, every function through the table, and refusals of another rmqcore."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from support.places import ROOT

import rmqcore
import rmqcore.c_api
from rmqcore import Message, codec

HERE = Path(__file__).parent
SRC = ROOT / "src"
EXAMPLE = ROOT / "examples" / "cython_consumer"
HEADER = (SRC / "rmqcore" / "c_api.h").read_text(encoding="utf-8")
DECLARED = (ROOT / "rmqcore" / "c_api" / "__init__.pxd").read_text(encoding="utf-8")
NAME = b"rmqcore.c_api._C_API"
FUNCTIONS = re.findall(r"(?:FUNCTION\([^,]*?, |ACTION\()(rmq_\w+),", HEADER)
STRUCTS = re.findall(r"STRUCT\((rmq_\w+)\)", HEADER)
NOT_EXPORTED = {
    "rmq_crc32_select": "changes what a whole extension computes CRCs with",
    "rmq_crc32_kernel": "for tests and benches",
    "rmq_text_hash": "a hash of no fixed value, for tables in memory",
    "rmq_text_equal": "for these tables",
}
"""Functions of the shipped headers without an entry in the table: an extension that calls one does not load."""


def public_headers() -> list[str]:
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "PUBLIC_HEADERS"
        ):
            found: list[str] = ast.literal_eval(node.value)
            return found
    raise AssertionError("setup.py has no PUBLIC_HEADERS")


HEADERS = public_headers()
KERNEL_HEADERS = [name for name in HEADERS if "/_native/" in name]


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"this test needs {name}"
    return found


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed wheel: the listed headers and no other."""
    include = tmp_path_factory.mktemp("include")
    for name in HEADERS:
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SRC / name, include / name)
    return include


# ---- headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize(
    "compiler",
    [
        "cc -x c -std=c11 -Wconversion",
        pytest.param("c++ -x c++ -std=c++17", marks=pytest.mark.needs("c++")),
    ],
    ids=["C11", "C++17"],
)
def test_a_header_compiles_alone(shipped: Path, compiler: str, name: str) -> None:
    """Also under the warnings of strict projects."""
    program, *flags = compiler.split()
    flags += ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{shipped}"]
    flags += [f"-isystem{sysconfig.get_paths()['include']}", "-"]
    source = f'#include "{name}"\n'
    subprocess.run([tool(program), *flags], input=source, text=True, check=True)


def test_every_function_of_the_headers_has_an_entry_or_a_reason() -> None:
    declared: set[str] = set()
    for name in KERNEL_HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (SRC / name).read_text(encoding="utf-8"), flags=re.DOTALL)
        declared |= set(
            re.findall(r"^(?!static)\w[\w *]*?\b(rmq_\w+)\([^{;]*\);", text, re.MULTILINE)
        )
    assert declared - set(NOT_EXPORTED) == set(FUNCTIONS)
    assert set(NOT_EXPORTED) <= declared


def test_every_entry_is_declared_for_cython_and_called_here() -> None:
    calls = (HERE / "calls.pyx").read_text(encoding="utf-8")
    for name in FUNCTIONS:
        assert re.search(rf"\b{name}\(", DECLARED), name
        assert re.search(rf"\b{name}\(", calls), name
    assert set(STRUCTS) == set(re.findall(r"ctypedef struct (\w+):", DECLARED))


def test_a_checkout_has_the_headers_in_its_source_and_a_build_beside_the_package() -> None:
    package = Path(rmqcore.__file__).parent
    built = package != ROOT / "rmqcore"  # scripts/sanitize.sh tests a build
    assert rmqcore.get_include() == str(package / "include" if built else SRC)
    assert Path(rmqcore.get_include(), "rmqcore", "c_api.h").is_file()


# ---- what 1.0 promises ------------------------------------------------------------------------------

ENTRIES_1_0 = """
    rmq_record rmq_message rmq_slice rmq_prop rmq_props_iter rmq_known_props rmq_cq_entry rmq_cq_columns rmq_index_header
    rmq_index_entry rmq_index_walk rmq_index_finding rmq_index_check rmq_delay_levels
    rmq_crc32_name rmq_record_parse_any rmq_record_check_prop_crc rmq_record_has_prop_crc rmq_record_encoded_size
    rmq_record_write rmq_record_encode rmq_keys_next rmq_cq_valid_prefix rmq_cq_prefix_below rmq_cq_rising_prefix rmq_cq_pack
    rmq_index_header_decode rmq_index_header_encode rmq_index_hash rmq_index_chain_walk rmq_index_check_entries
    rmq_index_check_slots rmq_jhash_any rmq_utf8_valid rmq_utf8_next rmq_utf8_sanitize rmq_decimal rmq_host_text
    rmq_host_parse rmq_hex_upper rmq_msg_id rmq_msg_id_text rmq_msg_id_parse rmq_tags_code
""".split()
LAYOUT_CRC_1_0 = 1953711066
"""Of the texts of all structs in the table, without comments and spaces."""


def test_nothing_of_1_0_is_gone_or_moved() -> None:
    """If this fails, raise the major version. Entries at the end are new: raise the minor version, and list them here."""
    assert "#define RMQCORE_API_MAJOR 1\n" in HEADER
    entries = re.findall(r"(?:FUNCTION\([^,]*?, |ACTION\(|STRUCT\()(rmq_\w+)[,)]", HEADER)
    assert entries[: len(ENTRIES_1_0)] == ENTRIES_1_0
    headers = "".join((SRC / name).read_text(encoding="utf-8") for name in KERNEL_HEADERS)
    plain = re.sub(r"/\*.*?\*/|\s", "", headers, flags=re.DOTALL)
    layouts = [re.findall(rf"typedefstruct{name}\{{(.*?)\}}{name};", plain) for name in STRUCTS]
    assert all(len(found) == 1 for found in layouts)
    assert zlib.crc32("".join(found[0] for found in layouts).encode()) == LAYOUT_CRC_1_0


# ---- through the table ------------------------------------------------------------------------------


def build(folder: Path) -> None:
    """Build the setup.py of a folder in place, against this checkout."""
    environment = {**os.environ, "CFLAGS": "-O1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module calls.pyx, and every constant that __init__.pxd declares."""
    folder = tmp_path_factory.mktemp("calls")
    setup = (EXAMPLE / "setup.py").read_text(encoding="utf-8")
    (folder / "setup.py").write_text(setup.replace("commitlog_tags", "calls"), encoding="utf-8")
    constants = re.findall(
        r"\b(RMQ_[A-Z]\w*)(?=[, \n])", re.sub(r"#.*|.*rmq_cq_entry RMQ.*", "", DECLARED)
    )
    lines = [f'    "{name}": int({name}),' for name in constants]
    source = (HERE / "calls.pyx").read_text(encoding="utf-8")
    (folder / "calls.pyx").write_text("\n".join([source, "CONSTANTS = {", *lines, "}\n"]), "utf-8")
    build(folder)
    (built,) = folder.glob("calls*.so")
    return load(built)


MESSAGE = Message(
    "Orders", b"body", tags="TagA", keys=("K1", "K2"), born_host="0.0.0.0:0", store_host="0.0.0.0:0"
)
RECORD = codec.encode(
    MESSAGE, phy_offset=1, queue_offset=2, store_timestamp_ms=3, append_prop_crc=True
)


def test_crc(calls: ModuleType) -> None:
    crc, name = calls.crc32(b"a text that is longer than any block of a kernel" * 10)
    assert crc == zlib.crc32(b"a text that is longer than any block of a kernel" * 10)
    assert name in ("vpclmul", "pclmul", "armv8", "slicing")


def test_records(calls: ModuleType) -> None:
    view = codec.decode(RECORD)
    properties = codec.encode_properties(MESSAGE.properties)
    assert calls.record(b"Orders", b"body", properties, 1, 2, 3) == (RECORD, RECORD)
    assert calls.checks(RECORD) == (0, 1, 0)
    assert calls.fields(RECORD) == (zlib.crc32(b"body") & 0x7FFFFFFF, 0, 0, 2, 1, 3, 3, 0, 0)
    assert calls.again(view.msg_id.encode()) == (view.msg_id.encode(), 1)
    assert calls.of_record(RECORD) == (view.msg_id.encode(), view.tags_code)
    plain = codec.encode(MESSAGE, phy_offset=1, queue_offset=2, store_timestamp_ms=3)
    assert calls.checks(plain)[1] == 0


def test_properties(calls: ModuleType) -> None:
    assert calls.properties(b"a\1b\2KEYS\1K1  K2\2") == (
        [(b"a", b"b"), (b"KEYS", b"K1  K2")],
        [b"K1", b"K2"],
    )


def test_queue_entries(calls: ModuleType) -> None:
    packed = codec.pack_cq(7, 100, -5)
    assert calls.queue(7, 100, -5) == (packed, (7, 100, -5), (2, 0, 1))


def test_an_index(calls: ModuleType) -> None:
    fields = (1000, 2000, 3, 4, 1, 3)
    packed = struct.pack(">qqqqii", *fields)
    assert calls.index_header(packed) == (packed, fields)
    entries = b"".join(struct.pack(">iqii", *entry) for entry in [(9, 50, 0, 0), (9, 60, 1, 1)])
    assert calls.index_chain(bytes(20) + entries, 9, 2) == [60, 50]
    assert calls.index_check(entries, struct.pack(">iiii", 0, 2, 0, 0)) == []
    prev_index, slot = (
        calls.CONSTANTS["RMQ_IDX_FIELD_PREVINDEX"],
        calls.CONSTANTS["RMQ_IDX_FIELD_SLOT"],
    )
    damaged = entries[:-4] + struct.pack(">i", 7)
    assert calls.index_check(damaged, struct.pack(">iiii", 0, 5, 0, 0)) == [
        (2, prev_index, 1, 7),
        (1, slot, 2, 5),
    ]


def test_hashes(calls: ModuleType) -> None:
    key = codec.java_hash("K1")
    assert calls.hashes(b"Orders", b"K1") == (codec.java_hash("Orders#K1") & -1, key, key, key)
    assert calls.hashes(b"", b"polygenelubricants")[1:] == (1 << 31, 1 << 31, 0)


def test_texts(calls: ModuleType) -> None:
    assert calls.utf8(b"abc") == (1, 1, (1, ord("a")), b"abc")
    assert calls.utf8("é".encode()) == (0, 1, (2, ord("é")), "é".encode())
    assert calls.utf8(b"\xffb") == (0, 0, (1, 0xFFFD), "\ufffdb".encode())
    assert calls.texts(b"127.0.0.1:10911", -7) == (b"7F00000100002A9F", b"127.0.0.1:10911", b"-7")


def test_constants(calls: ModuleType) -> None:
    from rmqcore._native.format import layout

    assert len(calls.CONSTANTS) > 70
    shared = {name for name in calls.CONSTANTS if hasattr(layout, name.removeprefix("RMQ_"))}
    assert len(shared) > 20
    for name in shared:
        assert calls.CONSTANTS[name] == getattr(layout, name.removeprefix("RMQ_"))


# ---- the example, and the page ----------------------------------------------------------------------


def test_the_example(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder)
    build(folder)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "check.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("TagA: 150 messages")


CompiledPage = Callable[..., Path]


@pytest.fixture
def page(tmp_path: Path, shipped: Path) -> CompiledPage:
    """Compile the module in C that docs/c_api.md shows, perhaps with other numbers in c_api.h."""

    def compiled(*replacements: tuple[str, str]) -> Path:
        include = tmp_path / "include"
        shutil.copytree(shipped, include, dirs_exist_ok=True)
        header = HEADER
        for old, new in replacements:
            assert old in header
            header = header.replace(old, new)
        (include / "rmqcore" / "c_api.h").write_text(header, encoding="utf-8")
        text = (ROOT / "docs" / "c_api.md").read_text(encoding="utf-8")
        (source,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
        (tmp_path / "bodies.c").write_text(source, encoding="utf-8")
        flags = [
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-missing-field-initializers",
            "-Werror",
        ]
        if sys.platform == "darwin":
            flags += ["-undefined", "dynamic_lookup"]
        out = tmp_path / "bodies.so"
        includes = [f"-I{include}", f"-isystem{sysconfig.get_paths()['include']}"]
        subprocess.run(
            [tool("cc"), *flags, *includes, tmp_path / "bodies.c", "-o", out], check=True
        )
        return out

    return compiled


def test_the_module_of_the_page(page: CompiledPage) -> None:
    bodies = load(page())
    assert bodies.body_bytes(RECORD * 3) == 12
    with pytest.raises(ValueError, match="at 0: code -1"):
        bodies.body_bytes(RECORD[:-1])


def test_the_functions_of_an_extension_are_its_own(page: CompiledPage) -> None:
    """An extension that was built against other headers must not get them."""
    listed = subprocess.run(
        [tool("nm"), "-D", "--defined-only", page()], capture_output=True, text=True, check=True
    ).stdout
    assert "PyInit_bodies" in listed
    assert "rmq" not in listed


@pytest.mark.parametrize(
    ("replacements", "said"),
    [
        ([("API_MAJOR 1", "API_MAJOR 2")], r"is 1\.0, expected 2\.0 or a later 2\.x"),
        ([("API_MINOR 0", "API_MINOR 1")], r"is 1\.0, expected 1\.1 or a later 1\.x"),
        (
            [("    rmq_crc32_fn crc32;\n", "    rmq_crc32_fn crc32, more;\n")],
            r"C API of the installed rmqcore has \d+ bytes, expected at least \d+",
        ),
    ],
)
def test_a_module_for_a_newer_rmqcore_is_refused(
    page: CompiledPage, replacements: list[tuple[str, str]], said: str
) -> None:
    with pytest.raises(ImportError, match=said):
        load(page(*replacements))


class Api(ctypes.Structure):
    """The beginning of the table."""

    _fields_ = [
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("size", ctypes.c_size_t),
        ("crc32", ctypes.c_void_p),
        ("sizes", ctypes.c_size_t * len(STRUCTS)),
    ]


def table() -> bytearray:
    """A copy of the installed table."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(rmqcore.c_api._C_API, NAME)
    size = Api.from_address(address).size
    assert size == ctypes.sizeof(Api) + 8 * len(FUNCTIONS)
    return bytearray(ctypes.string_at(address, size))


def install(monkeypatch: pytest.MonkeyPatch, changed: bytearray) -> None:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    address = ctypes.addressof((ctypes.c_char * len(changed)).from_buffer(changed))
    monkeypatch.setattr(rmqcore.c_api, "_C_API", new(address, NAME, None))


@pytest.mark.parametrize("number", range(len(STRUCTS)), ids=STRUCTS)
def test_a_struct_of_another_size_is_refused(
    page: CompiledPage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    changed = table()
    Api.from_buffer(changed).sizes[number] += 8
    install(monkeypatch, changed)
    with pytest.raises(ImportError, match=rf"the struct {STRUCTS[number]} of the .* has \d+ bytes"):
        load(page())


def test_a_later_minor_version_with_more_entries_is_accepted(
    page: CompiledPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = table() + bytes(64)
    Api.from_buffer(changed).minor += 3
    Api.from_buffer(changed).size += 64
    install(monkeypatch, changed)
    assert load(page()).body_bytes(RECORD) == 4


@pytest.mark.parametrize("value", [None, "capsule of another name"])
def test_an_object_that_is_not_the_table_is_refused(
    page: CompiledPage, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setattr(rmqcore.c_api, "_C_API", value)
    with pytest.raises(ValueError, match="PyCapsule_GetPointer"):
        load(page())
