"""Hypothesis strategies for damage to the files of a store."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hypothesis import strategies as st
from support.oracle.strategies import INT32_EDGES, INT64_EDGES


@dataclass(frozen=True)
class Change:
    """One change of the files; `file` and `at` are taken modulo what is there."""

    kind: str
    file: int
    at: int
    size: int
    noise: bytes

    def new_name(self) -> str:
        """No offset at all, another file's offset, one inside another file, one at the end of what a long can say."""
        names = [str(self.at), f"x{self.at}\udcff", f"{self.at:020}", f"{self.size * 16:020}"]
        names += ["9" * 20, f"{2**63 - 1:020}", f"{2**63 - 4096:020}", f"{2**63 - self.at:020}"]
        return names[self.size % len(names)]

    def apply(self, files: dict[str, bytes]) -> None:
        names = sorted(files)
        if not names:
            return
        # The log is hit as often as everything else together.
        logs = [name for name in names if name.startswith("commitlog")]
        chosen = logs if logs and self.file % 2 else names
        name = chosen[self.file // 2 % len(chosen)]
        data = bytearray(files[name])
        at = self.at % (len(data) + 1)
        end = min(at + self.size, len(data))
        if self.kind == "flip" and at < len(data):
            data[at] ^= 1 << self.size % 8
        elif self.kind == "noise":
            data[at : at + len(self.noise)] = self.noise[: len(data) - at]
        elif self.kind == "zeros":
            data[at:end] = bytes(end - at)
        elif self.kind == "number" and at + 8 <= len(data):
            edges = INT32_EDGES if self.size % 2 else INT64_EDGES
            form = ">i" if self.size % 2 else ">q"
            struct.pack_into(form, data, at, edges[self.size // 2 % len(edges)])
        elif self.kind == "cut":
            del data[at:]
        elif self.kind == "grow":
            data += self.noise * 3 + bytes(self.size)
        elif self.kind == "move":
            other = self.size * 7 % (len(data) + 1)
            piece = data[at:end]
            data[other : other + len(piece)] = piece[: len(data) - other]
        elif self.kind == "insert":
            data[at:at] = self.noise
        elif self.kind == "remove":
            del data[at:end]
        elif self.kind == "delete":
            del files[name]
            return
        elif self.kind == "rename":
            folder, slash, _ = name.rpartition(
                "/"
            )  # no slash in front of what lies in the root: that would be another root
            files[folder + slash + self.new_name()] = files.pop(name)
            return
        files[name] = bytes(data)


KINDS = [
    "flip",
    "noise",
    "zeros",
    "number",
    "cut",
    "grow",
    "move",
    "insert",
    "remove",
    "delete",
    "rename",
]
changes = st.builds(
    Change,
    st.sampled_from(KINDS),
    st.integers(0, 200),
    st.integers(0, 5000) | st.integers(0, 60),
    st.integers(0, 700),
    st.binary(max_size=40),
)
