"""The pages in docs/format are read, not believed: their tables are compared with layout.h, their bytes are decoded.

A layout picture that no test reads drifts away from the code. Each table under a ``layout`` or ``constants`` comment
must say what layout.h says, each name of layout.h must be on a page, and each hex block must decode to the JSON block
under it, by the oracle and by rmqcore.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from support.oracle import records as oracle
from support.places import ROOT

from rmqcore import codec
from rmqcore._native.index import index_reader
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.disk.paths import file_name, parse_file_name
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import encode_fields, parse_fields

PAGES = sorted((ROOT / "docs" / "format").glob("*.md"))
LAYOUT_H = ROOT / "src" / "rmqcore" / "_native" / "format" / "layout.h"


# ---- layout.h ---------------------------------------------------------------------------------------

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def evaluate(expression: str, known: dict[str, int]) -> int:
    """A C constant expression of +, -, *, numbers and earlier names."""

    def walk(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return known[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -walk(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](walk(left), walk(right))
            case _:
                raise ValueError(f"layout.h: cannot evaluate {expression!r}")

    return walk(ast.parse(expression.strip(), mode="eval").body)


def read_layout() -> dict[str, int]:
    text = re.sub(r"/\*.*?\*/", "", LAYOUT_H.read_text(), flags=re.DOTALL)
    known = {
        name: int(value)
        for name, value in re.findall(r"#define (RMQ_\w+) INT32_C\((-?\d+)\)", text)
    }
    for block in re.findall(r"\benum \{(.*?)\};", text, re.DOTALL):
        for item in filter(str.strip, block.split(",")):
            name, expression = item.split("=")
            known[name.strip()] = evaluate(expression, known)
    return known


LAYOUT = read_layout()


def test_the_evaluator_agrees_with_the_static_assertions() -> None:
    asserted = re.findall(r"static_assert\((RMQ_\w+) == (\d+),", LAYOUT_H.read_text())
    assert len(asserted) >= 8
    assert {name: LAYOUT[name] for name, _ in asserted} == {
        name: int(value) for name, value in asserted
    }


# ---- the pages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table under a comment; `kind` is the comment's text."""

    page: str
    kind: str
    header: list[str]
    rows: list[dict[str, str]]


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def read_tables() -> Iterator[Table]:
    for page in PAGES:
        for kind, table in re.findall(
            r"<!-- (layout .*?|constants) -->\n((?:\|.*\n)+)", page.read_text()
        ):
            header, _, *lines = table.splitlines()
            rows = [dict(zip(cells(header), cells(line), strict=True)) for line in lines]
            yield Table(page.name, kind, cells(header), rows)


TABLES = list(read_tables())
LAYOUTS = [table for table in TABLES if table.kind != "constants"]


def table_id(table: Table) -> str:
    return f"{table.page}:{table.kind}:{next(iter(table.rows[0].values()))}:{len(table.rows)}"


@pytest.mark.parametrize("table", LAYOUTS, ids=table_id)
def test_offsets_and_sizes_are_those_of_layout_h(table: Table) -> None:
    assert table.header == ["Offset", "Size", "Type", "Field", "Meaning and trust"]
    _, prefix, *end = table.kind.split()
    widths = {"int": [4], "long": [8], "host": [LAYOUT[f"RMQ_HOST_{v}_SIZE"] for v in ("V4", "V6")]}
    expected_offset = 0
    for row in table.rows:
        assert int(row["Offset"]) == LAYOUT[prefix + row["Field"]] == expected_offset, row
        if row["Size"] == "BODYLENGTH":
            continue
        sizes = [int(size) for size in row["Size"].split(" or ")]
        assert sizes == widths[row["Type"]], row
        expected_offset += sizes[0]
    if end:
        assert end[0] == "end"
        assert expected_offset == LAYOUT[end[1]]


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.kind == "constants"], ids=table_id
)
def test_constants_are_those_of_layout_h(table: Table) -> None:
    assert table.header == ["Name", "Value", "Meaning"]
    for row in table.rows:
        value = LAYOUT[row["Name"]]
        assert int(row["Value"], 0) in (value, value & 0xFFFFFFFF), row


def test_every_name_of_layout_h_is_on_a_page() -> None:
    told = {row["Name"] for table in TABLES if table.kind == "constants" for row in table.rows}
    told |= {table.kind.split()[1] + row["Field"] for table in LAYOUTS for row in table.rows}
    assert told == set(LAYOUT)


# ---- the examples -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """The bytes of a hex block, its lines with their remarks, the JSON under it, and the golden file it is from."""

    name: str
    page: str
    data: bytes
    remarks: list[tuple[bytes, str]]
    expected: dict[str, Any]
    origin: str | None

    @property
    def structure(self) -> str:
        return str(self.expected["structure"])


def read_examples() -> Iterator[Example]:
    for page in PAGES:
        blocks = re.findall(r"```hex\n(.*?)```\n+```json\n(.*?)```", page.read_text(), re.DOTALL)
        assert len(blocks) == page.read_text().count("```hex\n"), (
            f"{page.name}: a hex block without its JSON block"
        )
        for number, (block, expected) in enumerate(blocks, 1):
            lines = [line.partition("#") for line in block.splitlines()]
            pairs = [(bytes.fromhex(data), remark.strip()) for data, _, remark in lines]
            name = f"{page.name}:{number}"
            data = b"".join(data for data, _ in pairs)
            values = json.loads(expected)
            origin = values.pop("from", None)
            yield Example(name, page.name, data, pairs, values, origin)


EXAMPLES = list(read_examples())


def of(structure: str) -> pytest.MarkDecorator:
    found = [example for example in EXAMPLES if example.structure == structure]
    return pytest.mark.parametrize("example", found, ids=[example.name for example in found])


def test_every_page_has_an_example() -> None:
    pages = {page.name for page in PAGES} - {"README.md"}
    assert {example.page for example in EXAMPLES} == pages
    structures = {"record", "blank", "properties", "cq", "index", "checkpoint", "names", "frame"}
    assert {example.structure for example in EXAMPLES} == structures


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_remarks_name_what_their_bytes_hold(example: Example) -> None:
    for data, remark in example.remarks:
        if number := re.fullmatch(r"([A-Z]+) (-?\d+)", remark):
            assert int.from_bytes(data, "big", signed=True) == int(number[2]), remark


def test_bytes_said_to_be_from_a_store_are(golden: Path) -> None:
    real = [example for example in EXAMPLES if example.origin is not None]
    assert {example.structure for example in real} == {"record", "blank", "cq", "checkpoint"}
    for example in real:
        path, _, pos = str(example.origin).rpartition("@")
        with (golden / path).open("rb") as file:
            file.seek(int(pos))
            assert file.read(len(example.data)) == example.data, example.name


@of("record")
def test_records(example: Example) -> None:
    expected = dict(example.expected)
    view = codec.decode(example.data)
    assert codec.check(example.data, check_prop_crc="prop_crc" in expected) == len(example.data)
    assert oracle.check_record(example.data, check_prop_crc="prop_crc" in expected) == len(
        example.data
    )
    del expected["structure"]
    if (digits := expected.pop("prop_crc", None)) is not None:
        assert f"{digits:010d}"[::-1] == view.properties["__CRC32#"]
    if "body_hex" in expected:
        assert view.body.hex() == expected.pop("body_hex")
    else:
        assert view.body.decode() == expected.pop("body")
    assert {name: getattr(view, name) for name in expected} == expected
    record = oracle.decode_record(example.data)
    assert isinstance(record, oracle.Record)
    assert record.property_map == expected["properties"]
    plain = expected.keys() - {"topic", "properties", "born_host", "store_host"}
    assert {name: getattr(record, name) for name in plain} == {
        name: expected[name] for name in plain
    }


@of("blank")
def test_blanks(example: Example) -> None:
    assert oracle.decode_record(example.data) == oracle.Blank(example.expected["msg_size"])
    assert oracle.blank(example.expected["msg_size"]) == example.data
    assert codec.check(example.data) == 0


@of("properties")
def test_properties(example: Example) -> None:
    assert codec.decode_properties(example.data) == example.expected["map"]
    assert oracle.decode_properties(example.data) == example.expected["map"]


@of("cq")
def test_queue_entries(example: Example) -> None:
    entries = [tuple(entry) for entry in example.expected["entries"]]
    assert oracle.unpack_cq(example.data) == entries
    assert oracle.pack_cq(entries) == example.data
    assert codec.unpack_cq_entries(example.data).tolist() == entries
    assert codec.unpack_cq(example.data) == entries[0]
    assert codec.pack_cq(*map(list, zip(*entries, strict=True))) == example.data
    for text, value in example.expected.get("java_hash", {}).items():
        assert codec.java_hash(text) == oracle.java_hash(text) == value


@of("index")
def test_index_files(example: Example) -> None:
    expected = example.expected
    file = oracle.IndexFile.decode(example.data, expected["slot_count"])
    header = [name for name in expected if name.startswith(("begin_", "end_", "hash_", "index_"))]
    assert {name: getattr(file, name) for name in header} == {
        name: expected[name] for name in header
    }
    assert file.slots == {int(slot): head for slot, head in expected["slots"].items()}
    assert file.entries == {
        int(number): tuple(entry) for number, entry in expected["entries"].items()
    }
    assert file.encode() == example.data
    assert index_reader.decode_header(example.data)._asdict() == {
        name: expected[name] for name in header
    }
    for key, (key_hash, offsets) in expected["keys"].items():
        assert (
            codec.index_key_hash(*key.split("#"))
            == oracle.index_key_hash(*key.split("#"))
            == key_hash
        )
        assert file.find(key_hash, 0, 1 << 62, 64) == offsets


@of("checkpoint")
def test_checkpoints(example: Example) -> None:
    decoded = oracle.decode_checkpoint(example.data)
    assert decoded == {
        name: value for name, value in example.expected.items() if name != "structure"
    }
    assert oracle.encode_checkpoint(decoded)[: len(example.data)] == example.data
    assert asdict(StoreCheckpoint.decode(example.data)) == decoded
    assert StoreCheckpoint(**decoded).encode() == oracle.encode_checkpoint(decoded)


@of("names")
def test_names(example: Example) -> None:
    assert example.data.decode() == example.expected["text"]
    for offset, name in example.expected["names"].items():
        assert file_name(int(offset)) == name
        assert parse_file_name(name) == int(offset)


@of("frame")
def test_frames(example: Example) -> None:
    decoder = FrameDecoder()
    decoder.feed(example.data)
    frame = decoder.next_frame()
    assert frame is not None and decoder.pending == 0
    command = decode_command(frame)
    assert encode_command(command) == example.data
    expected = dict(example.expected)
    del expected["structure"]
    assert command.body.decode() == expected.pop("body")
    assert command.language.name == expected.pop("language")
    fields = expected.pop("fields")
    assert parse_fields(RequestCode(command.code), command.ext_fields) == fields
    assert encode_fields(RequestCode(command.code), fields) == command.ext_fields
    assert {name: getattr(command, name) for name in expected} == expected
