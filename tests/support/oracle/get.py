"""DefaultMessageStore#getMessage as slow, obvious Python over a log in memory and a model queue, without rmqcore."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.oracle import records as oracle
from support.oracle.queue import ENTRY, Queue

CAP = 128 << 20
FIRST_TAGS_CODE = -2147483648
"""What is below is the address of a record in consumequeue_ext."""


@dataclass(frozen=True)
class SlowLog:
    """Files by offset; bytes count up to `end`."""

    file_size: int
    files: dict[int, bytes]
    end: int

    def record(self, phy_offset: int, size: int) -> bytes | None:
        """Bytes of a record; None when its file is not there or it is not whole."""
        start = phy_offset - phy_offset % self.file_size
        if phy_offset < 0 or size <= 0 or phy_offset + size > min(self.end, start + self.file_size):
            return None
        data = self.files.get(start)
        return None if data is None else data[phy_offset - start : phy_offset - start + size]


@dataclass
class SlowConfig:
    memory: int = 1 << 40
    """A message that is at most so far from the log's end counts as in memory."""
    bytes_in_memory: int = 256 * 1024
    count_in_memory: int = 32
    bytes_on_disk: int = 64 * 1024
    count_on_disk: int = 8
    filter_bytes: int = 16_000
    files: int = 1
    slave: bool = False


@dataclass
class SlowResult:
    status: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    found: list[int] = field(default_factory=list)
    total: int = 0
    from_slave: bool = False


def sound(data: bytes, phy_offset: int, size: int) -> oracle.Record | None:
    """Ours: what is no record, or lies elsewhere by its own word, is not there."""
    try:
        record = oracle.decode_record(data)
    except oracle.Refused:
        return None
    if not isinstance(record, oracle.Record) or record.msg_size != size:
        return None
    return record if record.phy_offset == phy_offset else None


def slow_get(
    queue: Queue | None,
    log: SlowLog,
    offset: int,
    most: int,
    tags: set[str] | None,
    max_bytes: int | None,
    config: SlowConfig,
) -> SlowResult:
    low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def answer(status: str, new: int) -> SlowResult:
        return SlowResult(status, offset if config.slave else new, low, high)

    if queue is None or high == 0:
        return answer("NO_MESSAGE_IN_QUEUE", 0)
    if offset < low:
        return answer("OFFSET_TOO_SMALL", low)
    if offset == high:
        return answer("OFFSET_OVERFLOW_ONE", offset)
    if offset > high:
        return answer("OFFSET_OVERFLOW_BADLY", high)
    cap = CAP if max_bytes is None else min(max(max_bytes, 100), CAP)
    scan_limit = max(config.filter_bytes, most * ENTRY)
    codes = None if tags is None else {oracle.java_hash(tag) for tag in tags}
    result = SlowResult("NO_MATCHED_MESSAGE", offset, low, high)
    last_phy, files = 0, 0
    while result.total == 0 and result.next_begin_offset < high and files < config.files:
        files += 1
        first = result.next_begin_offset
        start = first * ENTRY - first * ENTRY % queue.file_size
        if start not in queue.files:
            result.status = "OFFSET_FOUND_NULL"
            if not config.slave:
                result.next_begin_offset = (start + queue.file_size) // ENTRY
            break
        skip_below = -(1 << 63)
        for at in range(first, min((start + queue.file_size) // ENTRY, high)):
            phy, size, code = queue.read(start, at * ENTRY - start)
            in_memory = log.end - phy <= config.memory
            if (at - offset) * ENTRY >= scan_limit or result.total >= cap:
                break
            if is_full(result, size, most, cap, config, in_memory=in_memory):
                break
            last_phy = phy
            result.next_begin_offset = at + 1
            if phy < skip_below:
                continue
            extended = code < FIRST_TAGS_CODE
            if codes is not None and not extended and oracle.wrap(code, 32) not in codes:
                wrong = "NO_MATCHED_MESSAGE"
            elif (data := log.record(phy, size)) is None:
                wrong = "MESSAGE_WAS_REMOVING"
                if (phy, size) != oracle.CQ_FILLER[
                    :2
                ]:  # ours: it names no file, so nothing behind it is passed over
                    skip_below = phy - phy % log.file_size + log.file_size
            elif (record := sound(data, phy, size)) is None:
                wrong = "MESSAGE_WAS_REMOVING"
            elif codes is not None and extended and oracle.wrap(record.tags_code, 32) not in codes:
                wrong = "NO_MATCHED_MESSAGE"
            else:
                result.found.append(phy)
                result.total += size
                result.status = "FOUND"
                skip_below = -(1 << 63)
                continue
            if not result.total:
                result.status = wrong
    result.from_slave = log.end - last_phy > config.memory
    return result


def is_full(
    result: SlowResult, size: int, most: int, cap: int, config: SlowConfig, *, in_memory: bool
) -> bool:
    count, total = len(result.found), result.total + size
    if not count:
        return False
    if count + 1 > most or total > cap:
        return True
    if in_memory:
        return total > config.bytes_in_memory or count > config.count_in_memory - 1
    return total > config.bytes_on_disk or count > config.count_on_disk - 1
