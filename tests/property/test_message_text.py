"""Lines of JSON and rows of CSV of any record: byte for byte those of Python's json and csv, and readers get the values back."""

from __future__ import annotations

import base64
import codecs
import csv
import io
import json
import zlib
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.oracle import message_rows as plain_rows
from support.oracle import records as oracle
from support.oracle.strategies import characters, hosts, int32, int64

from rmqcore import codec
from rmqcore._native.text.message_text import csv_line, json_line
from rmqcore.codec.message import MessageView
from rmqcore.offline.export.message_rows import CSV_HEADER, FIELDS, Body, body_encoder
from rmqcore.vocabulary.sysflag import COMPRESSED

# What the quoting turns on, malformed UTF-8 (an encoded surrogate, a cut character), and ordinary text.
odd_bytes = st.sampled_from(
    [b'"', b"\\", b",", b"\n", b"\r", b"\0", b"\x1f", b"\x7f", b"=", b"+", b"-", b"@", b"\t", b" ", b"'", b"x" * 9]
    + [text.encode() for text in "\uff1d\uff0b\uff0d\uff20\uff1e\ufffd\u2028é\U0001f600"]
    + [b"\xff", b"\xed\xa0\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc3"],
)  # fmt: skip
any_bytes = (
    st.lists(odd_bytes, max_size=12).map(b"".join)
    | st.text(characters, max_size=12).map(str.encode)
    | st.binary(max_size=12)
    | st.builds(bytes.__mul__, odd_bytes, st.integers(0, 700))
)
# Few names, so that they come twice; two of them differ and are one text.
names = (
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"a", b"b", b"\xff", b"\xfe", "\ufffd".encode(), b""])
    | any_bytes
)  # fmt: skip
pairs = st.builds(lambda name, value: name + b"\x01" + value + b"\x02", names, any_bytes)
properties = (
    st.lists(pairs, max_size=8).map(b"".join)
    | st.lists(pairs, min_size=60, max_size=80).map(b"".join)
    | st.binary(max_size=40)
).map(lambda found: found[:32767])
body_texts = (
    st.none()
    | any_bytes.map(lambda found: found.decode("utf-8", "replace"))
    | st.text(st.characters(), max_size=20)  # surrogates too
    | st.builds(str.__mul__, st.text(st.characters(), min_size=1, max_size=5), st.integers(0, 9000))
)


@st.composite
def views(draw: st.DrawFn) -> MessageView:
    """A view of any record, whose properties somebody may have asked for before."""
    record = draw(
        st.builds(
            oracle.Record,
            topic=any_bytes.map(lambda found: found[:32767])
            | st.just(oracle.SCHEDULE_TOPIC.encode()),
            body=st.binary(max_size=20),
            properties=properties,
            queue_id=int32,
            flag=int32,
            queue_offset=int64,
            phy_offset=int64,
            sys_flag=int32,
            born_timestamp_ms=int64,
            born_host=hosts,
            store_timestamp_ms=int64,
            store_host=hosts,
            reconsume_times=int32,
            prepared_transaction_offset=int64,
        )
    )
    view = codec.decode(oracle.encode_record(record))
    if draw(st.booleans()):
        assert isinstance(view.properties, dict)
    return view


def shown(text: str | None) -> str | None:
    """A body's text as UTF-8 has it."""
    return None if text is None else text.encode("utf-8", "replace").decode()


@given(views(), body_texts)
def test_a_line_of_json(view: MessageView, text: str | None) -> None:
    line = json_line(view, text)
    assert line == plain_rows.json_line(view, text)
    assert line.endswith(b"}\n") and line.count(b"\n") == 1
    assert json.loads(line) == view.as_dict() | {"body": shown(text)}
    assert list(json.loads(line)) == list(FIELDS)


@given(views(), body_texts, st.booleans())
def test_a_row_of_csv(view: MessageView, text: str | None, csv_safe: bool) -> None:
    line = csv_line(view, text, csv_safe)
    assert line == plain_rows.csv_line(view, text, csv_safe=csv_safe)
    (row,) = csv.reader(io.StringIO(line.decode(), newline=""))
    values = view.as_dict() | {"body": shown(text), "keys": " ".join(view.keys)}
    values["properties"] = json.dumps(values["properties"], ensure_ascii=False)
    expected = ["" if value is None else str(value) for value in values.values()]
    if csv_safe:
        formulas = [isinstance(value, str) and value.startswith(plain_rows.FORMULA) for value in values.values()]  # fmt: skip
        expected = ["'" * odd + value for odd, value in zip(formulas, expected, strict=True)]
    assert row == expected


def test_the_header_names_the_values() -> None:
    assert next(csv.reader([CSV_HEADER.decode()])) == list(FIELDS) == list(plain_rows.FIELDS)


def test_every_character() -> None:
    """One by one in a body, which is text already; and as bytes of a topic, in the middle of plain ones."""
    view = codec.decode(oracle.encode_record(oracle.Record(b"t", b"", b"")))
    every = "".join(map(chr, range(0x110000)))
    assert json_line(view, every) == plain_rows.json_line(view, every)
    assert csv_line(view, every, True) == plain_rows.csv_line(view, every, csv_safe=True)
    for first in range(0, 0x110000, 0x1000):
        topic = "".join(map(chr, range(first, first + 0x1000))).encode("utf-8", "surrogatepass")
        view = codec.decode(oracle.encode_record(oracle.Record(topic, b"", b"")))
        assert json_line(view, None) == plain_rows.json_line(view, None)
        assert csv_line(view, None, False) == plain_rows.csv_line(view, None)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191])
def test_names_that_come_again(count: int) -> None:
    """Where a name is first, with its last value: whether all are compared with each other, or a dict knows them."""
    texts = [chr(0x4E00 + number % 10).encode() for number in range(count)]
    for extra in (b"", b"\xff", b"\xfe"):  # two names that Java reads as one
        found = b"".join(b"%b\1%d\2" % (text, number) for number, text in enumerate(texts))
        found += b"a\1x\2" + extra + b"\1y\2\xff\1z\2a\1last\2"
        if len(found) > 32767:
            found = b"n\1v\2" * count
        view = codec.decode(oracle.encode_record(oracle.Record(b"t", b"", found)))
        assert json_line(view, None) == plain_rows.json_line(view, None)
        assert csv_line(view, None, True) == plain_rows.csv_line(view, None, csv_safe=True)


@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 2048, 4095, 4096, 3_000_000])
@pytest.mark.parametrize("unit", ["x", "\0", '"', "é", "\U0001f600", "a,b"])
def test_long_bodies(length: int, unit: str) -> None:
    view = codec.decode(oracle.encode_record(oracle.Record(b"t", b"", b"TAGS\1a\2")))
    text = (unit * length)[:length]
    assert json_line(view, text) == plain_rows.json_line(view, text)
    assert csv_line(view, text, True) == plain_rows.csv_line(view, text, csv_safe=True)


def test_what_is_no_view_or_no_text_is_refused() -> None:
    view = codec.decode(oracle.encode_record(oracle.Record(b"t", b"", b"")))
    for odd in (None, b"", object()):
        with pytest.raises(TypeError):
            json_line(odd, "")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            csv_line(odd, "", False)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        json_line(view, b"x")  # type: ignore[arg-type]


# ---- bodies -----------------------------------------------------------------------------------------


BODIES: tuple[Body, ...] = ("text", "base64", "text_or_base64")


def as_text(body: bytes, kind: Body, *, whole: bool) -> str:
    if kind == "text":
        return body.decode("utf-8", "replace")
    if kind == "text_or_base64":
        with suppress(UnicodeDecodeError):
            return codecs.getincrementaldecoder("utf-8")().decode(body, final=whole)
    return base64.b64encode(body).decode()


@example(body="é".encode(), most=1, compressed=False, plain=False)
@given(
    body=any_bytes,
    most=st.none() | st.integers(0, 100),
    compressed=st.booleans(),
    plain=st.booleans(),
)
def test_so_much_of_a_body_is_shown(
    body: bytes, most: int | None, compressed: bool, plain: bool
) -> None:
    record = oracle.Record(
        b"t",
        zlib.compress(body) if compressed else body,
        b"",
        sys_flag=COMPRESSED if compressed else 0,
        phy_offset=7,
    )
    view = codec.decode(oracle.encode_record(record))
    whole = body if plain else record.body
    start = whole if most is None else whole[:most]
    for kind in BODIES:
        shortened: list[int] = []
        encode = body_encoder(kind, plain=plain, max_body=most, on_shortened=shortened.append)
        text = encode(view)
        assert shortened == ([] if start == whole else [7]), kind
        assert text == as_text(start, kind, whole=start == whole), kind
