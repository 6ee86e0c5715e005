"""All index files of a store as slow, obvious Python.

Nothing of rmqcore is imported here. Source of the rules: RocketMQ 5.5.0 IndexService. After a crash the package keeps and
rebuilds differently, so that nothing is missing and nothing twice; where that is so a comment says it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from support.oracle import records as oracle
from support.oracle.records import IndexFile, Record

NEVER = (1 << 63) - 1


@dataclass(frozen=True)
class Hits:
    """Offsets ascending, and the end of the newest file; zeros without a hit."""

    phy_offsets: list[int]
    last_timestamp_ms: int
    last_phy_offset: int


@dataclass
class Indexes:
    """Oldest first; only the last one has room."""

    slot_count: int
    capacity: int
    files: list[IndexFile] = field(default_factory=list)

    # ---- putting ------------------------------------------------------------------------------------

    def put(self, record: Record) -> None:
        """IndexService#buildIndex. A message asks for a file with room first, also when it has no key."""
        if record.phy_offset < self.resume_offset():
            return
        keys = oracle.index_keys(record)
        known = self._keys_in(record, keys)
        if 0 < known == len(keys):
            return  # ours, not Java's: nothing of it is missing, so it makes no new file either
        self._with_room()
        for key in keys[known:]:
            done = self._with_room().put(
                oracle.text_of(record.topic), key, record.phy_offset, record.store_timestamp_ms
            )
            assert done

    def _keys_in(self, record: Record, keys: list[str]) -> int:
        """Ours, not Java's: keys of the newest indexed message that are in already are not put again.

        Keys go in in their order, so these are the longest beginning of its keys with which the index ends. A message whose
        properties were damaged after it was indexed has other keys, and those are put.
        """
        if record.phy_offset != self.resume_offset():
            return 0
        entries = [file.entries[number] for file in self.files for number in sorted(file.entries)]
        have = [key_hash for key_hash, phy_offset, *_ in entries if phy_offset == record.phy_offset]
        hashes = [oracle.index_key_hash(oracle.text_of(record.topic), key) for key in keys]
        counts = range(min(len(have), len(keys)), 0, -1)
        return next((count for count in counts if have[-count:] == hashes[:count]), 0)

    def _with_room(self) -> IndexFile:
        if self.files and self.files[-1].index_count < self.capacity:
            return self.files[-1]
        fresh = IndexFile(self.slot_count, self.capacity)
        if self.files:
            before = self.files[-1]
            fresh.begin_timestamp_ms = fresh.end_timestamp_ms = max(before.end_timestamp_ms, 0)
            fresh.begin_phy_offset = fresh.end_phy_offset = max(before.end_phy_offset, 0)
        self.files.append(fresh)
        return fresh

    # ---- asking -------------------------------------------------------------------------------------

    def query(
        self, topic: str, key: str, most: int, begin_ms: int, end_ms: int, index_type: str | None
    ) -> Hits:
        """IndexService#queryOffset and the sorting of DefaultMessageStore#queryMessage; collisions and repeats included."""
        wanted = oracle.index_key_hash(topic, f"T#{key}" if index_type == "T" else key)
        found: list[int] = []
        for file in reversed(self.files):
            first, last = file.begin_timestamp_ms, file.end_timestamp_ms
            if (
                (begin_ms < first and end_ms > last)
                or first <= begin_ms <= last
                or first <= end_ms <= last
            ):
                found += file.find(wanted, begin_ms, end_ms, most - len(found))
            if first < begin_ms or len(found) >= most:
                break
        if not found:
            return Hits([], 0, 0)
        newest = self.files[-1]
        return Hits(sorted(found), newest.end_timestamp_ms, newest.end_phy_offset)

    # ---- opening ------------------------------------------------------------------------------------

    def load_after_crash(self, index_msg_timestamp_ms: int) -> None:
        """Ours: only full files, in order, that the checkpoint vouches for. Java keeps others too, if they are old enough."""
        kept: list[IndexFile] = []
        for file in self.files:
            after = kept[-1].end_timestamp_ms if kept else -1
            full = file.index_count >= file.capacity
            if not full or not after < file.end_timestamp_ms <= index_msg_timestamp_ms:
                break
            kept.append(file)
        self.files = kept

    def trim(self, log_end: int) -> bool:
        """Ours: no entry may point behind the end of the log. Answers whether files were dropped."""
        for number, file in enumerate(self.files):
            if file.end_phy_offset >= log_end:
                del self.files[number:]
                return True
        return False

    def resume_offset(self) -> int:
        """Where putting has to go on after files were dropped."""
        return self.files[-1].end_phy_offset if self.files else 0

    def delete_expired(self, min_phy: int) -> int:
        """IndexService#deleteExpiredFile."""
        deleted = 0
        while len(self.files) > 1 and self.files[0].end_phy_offset < min_phy:
            del self.files[0]
            deleted += 1
        return deleted
