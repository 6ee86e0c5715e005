"""The constants that Python takes from layout.h, and the positions that depend on the widths of the hosts."""

from __future__ import annotations

import re

import pytest
from support.oracle import records as oracle
from support.places import ROOT

from rmqcore._native.format import layout
from rmqcore.config import MessageStoreConfig
from rmqcore.vocabulary import sysflag

TYPED_IN = {
    "a magic": r"0x(?:DAA320A[7B]|CBD43194)|-?(?:626843481|626843477|875286124)|\\xda\\xa3",
    "a structured type of queue or index entries": r'"phy_offset", ">i8"',
    "the size of a body's place or of the smallest record": r"(?<![\d_.])(?:88|91)(?![\d_])",
}
"""What only layout.h spells, as Python would spell it again."""


def test_python_does_not_type_in_what_layout_h_says() -> None:
    for path in sorted((ROOT / "rmqcore").rglob("*.py")):
        code = "\n".join(
            line
            for line in path.read_text(encoding="utf-8").splitlines()
            if not line.lstrip().startswith("#")
        )
        for what, pattern in TYPED_IN.items():
            assert not re.search(pattern, code), f"{path.relative_to(ROOT)} types in {what}"


@pytest.mark.parametrize("born_v6", [False, True])
@pytest.mark.parametrize("store_v6", [False, True])
def test_positions_behind_the_hosts(born_v6: bool, store_v6: bool) -> None:
    hosts = [
        oracle.Host(bytes(16), 1) if v6 else oracle.Host(bytes(4), 1) for v6 in (born_v6, store_v6)
    ]
    made = oracle.Record(
        b"T",
        b"the body",
        b"",
        born_host=hosts[0],
        store_host=hosts[1],
        store_timestamp_ms=0x0102030405060708,
    )
    record = oracle.encode_record(made)
    sys_flag = int.from_bytes(record[layout.REC_SYSFLAG : layout.REC_SYSFLAG + 4], "big")
    pos = layout.store_timestamp_pos(sys_flag)
    assert record[pos : pos + 8] == bytes(range(1, 9))
    assert pos + 8 <= layout.REC_STORETIMESTAMP_MAX_END
    assert record[layout.body_pos(sys_flag) :].startswith(b"the body")


def test_sysflag_and_defaults_are_those_of_layout_h() -> None:
    assert sysflag.BORNHOST_V6 == layout.SYS_BORNHOST_V6 == 0x10
    assert sysflag.COMPRESSION_ZLIB == 0x300
    config = MessageStoreConfig()
    assert config.index_file_size == layout.index_file_size(5_000_000, 20_000_000) == 420_000_040
    assert config.consume_queue_file_size == 6_000_000
