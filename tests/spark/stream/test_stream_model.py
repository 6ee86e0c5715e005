"""A stream over live logs against a list of what was written: any steps, any limits, restarts in between."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.spark.followed_stores import FollowedStores
from support.stores.live_log import LiveLog

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
