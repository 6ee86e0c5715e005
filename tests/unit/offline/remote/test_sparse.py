"""Pages of zeros stay holes, and every byte is where it was."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rmqcore.offline.remote.sparse import write_sparse
from rmqcore.vocabulary.units import PAGE

PAGES = st.lists(
    st.sampled_from([b"\0" * PAGE, b"x" * PAGE, b"\0" * (PAGE - 1) + b"y"]), max_size=12
)


@given(before=st.integers(0, 3), pages=PAGES, rest=st.binary(max_size=50))
def test_what_is_written_is_read(before: int, pages: list[bytes], rest: bytes) -> None:
    data = b"".join(pages) + rest
    with tempfile.TemporaryFile() as file:
        file.truncate(before * PAGE + len(data))
        write_sparse(file.fileno(), data, before * PAGE)
        assert file.read() == bytes(before * PAGE) + data
        kept = sum(page != bytes(PAGE) for page in pages) + bool(rest.strip(b"\0"))
        assert os.fstat(file.fileno()).st_blocks * 512 <= kept * PAGE


def test_an_end_of_zeros_makes_no_file_longer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as out:
        write_sparse(out.fileno(), b"x" + bytes(3 * PAGE), 0)
    assert path.stat().st_size == PAGE
