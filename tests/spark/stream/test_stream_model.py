"""A stream over live logs against a list of what was written, and against a batch: any steps, any limits, restarts, damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.spark.followed_stores import FollowedStores, Rows
from support.spark.spark_tables import read_table
from support.stores.live_log import LiveLog

from rmqcore.errors import DamagedStreamError
from rmqcore.spark.stream.cursor import StreamRules

FILE_SIZE = 1 << 15


class Writer:
    """A log that is appended to, now and then with half a record at its end."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.broker = root.name
        self.log = LiveLog(root, file_size=FILE_SIZE)
        self.rng = rng
        self.written: list[int] = []
        self.half: bytes | None = None
        self.log.allocate(0)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.finish()
            self.half = self._record()
            self.finish()

    def start_record(self) -> None:
        """Leave a record in its middle: the reader sees a part of it."""
        self.finish()
        self.half = self._record()
        self.log.write(self.log.end, self.half[: self.rng.randrange(1, len(self.half))])

    def finish(self) -> None:
        if self.half is not None:
            self.log.write(self.log.end, self.half)
            self.written.append(self.log.finish(self.half))
            self.half = None

    def allocate_ahead(self) -> None:
        self.log.allocate(self.log.end + FILE_SIZE)

    def clean(self, consumed: int) -> None:
        """Delete files of which everything was consumed; never the file that is written to."""
        for path in sorted(self.log.path(0).parent.iterdir()):
            if int(path.name) + FILE_SIZE <= min(consumed, self.log.end):
                path.unlink()

    def damage(self, consumed: int) -> None:
        """Damage what no batch has read: bits, noise or zeros, up to two records long, or the beginning of a file."""
        begin = self.rng.randrange(consumed, self.log.end + 1)
        if self.rng.randrange(6) == 0:
            begin = max(consumed, begin // FILE_SIZE * FILE_SIZE)
        end = min(begin + self.rng.choice((1, 1, 4, 90, 2000)), self.log.end)
        size = max(0, min(end, begin // FILE_SIZE * FILE_SIZE + FILE_SIZE) - begin)
        self.log.write(begin, self.rng.choice((bytes(size), self.rng.randbytes(size))))

    def _record(self) -> bytes:
        body = self.rng.randbytes(self.rng.choice((0, 1, 60, 300, 800)))
        return self.log.record(body=body, tags="a", keys="k" * self.rng.randrange(40))


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_lost_or_repeated(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    writers = [Writer(tmp_path / f"broker-{name}", rng) for name in "abc"[: rng.randint(1, 3)]]
    stream = FollowedStores(tmp_path / "broker-*")

    def anyone() -> Writer:
        return rng.choice(writers)

    def limits() -> tuple[int | None, int | None]:
        return rng.choice((None, 1, 7, 60)), rng.choice((None, 1, 2000, FILE_SIZE, 3 * FILE_SIZE))

    for _ in range(60):
        step = rng.randrange(8)
        if step <= 1:
            anyone().append(rng.choice((1, 5, 80)))
        elif step == 2:
            anyone().start_record()
        elif step == 3:
            anyone().allocate_ahead()
        elif step == 4:
            stream.restart()
            if stream.batches:
                # Spark asks again for the batch that was not known to be done.
                start, end, rows = stream.batches[-1]
                assert stream.read(start, end) == rows
        elif step == 5:
            records, byte_count = limits()
            behind = sum(len(writer.written) for writer in writers) - len(stream.rows)
            rows = stream.batch(records, byte_count)
            assert len(rows) >= min(behind, 1)
            assert records is None or len(rows) <= records
        elif step == 6:
            writer = anyone()
            writer.clean(stream.at[writer.broker])
            stream.batches.clear()  # a batch whose files are gone is done
        else:
            # Trigger.AvailableNow: what is there now, and not what comes meanwhile.
            stream.restart()
            stream.follower.stop_at_present_end()
            there = {(w.broker, at) for w in writers for at in w.written}
            anyone().append(3)
            stream.drain(*limits())
            assert set(stream.rows) == there
            stream.restart()
    for writer in writers:
        writer.finish()
    stream.drain()
    for writer in writers:
        of_one = [at for broker, at in stream.rows if broker == writer.broker]
        assert of_one == writer.written


@pytest.mark.parametrize("seed", range(24))
def test_what_skips_damage_gives_the_rows_of_a_batch(tmp_path: Path, seed: int) -> None:
    """An AvailableNow query stopped at damage in the newest file without a word, 15,000 rows before a batch did."""
    rng = random.Random(1000 + seed)
    writers = [Writer(tmp_path / f"broker-{name}", rng) for name in "ab"[: rng.randint(1, 2)]]
    skip, wait = (StreamRules(on_damage=rule) for rule in ("skip", "wait"))
    stream = FollowedStores(tmp_path / "broker-*", skip)

    def limits() -> tuple[int | None, int | None]:
        return rng.choice((None, 1, 7, 60)), rng.choice((None, 1, 2000, FILE_SIZE))

    def sound_ends() -> None:
        for writer in writers:
            writer.append(2)

    for _ in range(40):
        step = rng.randrange(8)
        writer = rng.choice(writers)
        if step <= 1:
            writer.append(rng.choice((1, 5, 60)))
        elif step == 2:
            writer.start_record()
        elif step == 3:
            writer.allocate_ahead()
        elif step == 4:
            writer.finish()
            writer.damage(stream.at[writer.broker])
        elif step == 5:
            stream.restart()
            if stream.batches:
                start, end, rows = stream.batches[-1]
                assert stream.read(start, end) == rows
        elif step == 6:
            stream.batch(*limits())
        else:
            sound_ends()
            stream.restart()
            stream.follower.stop_at_present_end()
            stream.drain(*limits())
            assert of_stores(stream.rows) == batch_of(tmp_path)
            stream.restart()
    sound_ends()
    stream.drain(*limits())
    expected = batch_of(tmp_path)
    assert of_stores(stream.rows) == expected

    waiting = FollowedStores(tmp_path / "broker-*", wait)
    waiting.follower.stop_at_present_end()
    error = damage_at_the_end(waiting, *limits())
    if error is not None:
        assert waiting.at[error.broker] == error.phy_offset < error.next_phy_offset
        waiting.rules = skip
        waiting.restart()
        waiting.drain(*limits())
    assert of_stores(waiting.rows) == expected


def damage_at_the_end(
    stream: FollowedStores, records: int | None, byte_count: int | None
) -> DamagedStreamError | None:
    """Follow the stores to the end; answer what was raised there."""
    try:
        stream.drain(records, byte_count)
    except DamagedStreamError as error:
        return error
    return None


def of_stores(rows: Rows) -> dict[str, Rows]:
    """Rows by store, in their order."""
    brokers = {broker for broker, _ in rows}
    return {name: [row for row in rows if row[0] == name] for name in brokers}


def batch_of(root: Path) -> dict[str, Rows]:
    rows = read_table(f"{root}/broker-*", columns="broker,phy_offset", failOnDataLoss=False)
    return of_stores([(row["broker"], row["phy_offset"]) for row in rows])
