"""The data that the benches share: it is made on first use, kept in a directory, and has the same bytes every time."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil

from bench.make_store import make_store


@dataclasses.dataclass(frozen=True)
class LogSet:
    """A CommitLog file: 250 topics of 4 queues at random, TAGS and KEYS.

    Records of equal size flatter the scan: the processor's prefetcher learns the step. Mixed records
    have bodies of 0.5 to 1.5 times the nominal size.
    """

    body: int
    mixed: bool

    @property
    def name(self) -> str:
        return f"{self.body} B {'mixed' if self.mixed else 'equal'}"


LOG_SETS = tuple(LogSet(body, mixed) for body in (128, 1024) for mixed in (False, True))


@dataclasses.dataclass(frozen=True)
class Data:
    """Where the data lies, and how much of it: `mib` MiB a set."""

    root: pathlib.Path
    mib: int

    def _made(
        self, name: str, body: int, mixed: bool, *, log_only: bool, file_mib: int | None = None
    ) -> pathlib.Path:
        path = self.root / f"{name}-{body}-{'mixed' if mixed else 'equal'}-{self.mib}"
        done = path.with_suffix(".done")  # written last: an interrupted maker leaves no such file
        if not done.exists():
            shutil.rmtree(path, ignore_errors=True)
            records = make_store(
                path, mib=self.mib, body=body, mixed=mixed, log_only=log_only, file_mib=file_mib
            )
            done.write_text(f"{records}\n")
        return path

    def log(self, log_set: LogSet) -> pathlib.Path:
        """A store directory with one CommitLog file and nothing else."""
        return self._made("log", log_set.body, log_set.mixed, log_only=True)

    def log_file(self, log_set: LogSet) -> pathlib.Path:
        """The one CommitLog file of `log`."""
        return next((self.log(log_set) / "commitlog").iterdir())

    def store(self) -> pathlib.Path:
        """A whole store, mixed sizes around 128 bytes, with queues and index."""
        return self._made("store", 128, True, log_only=False)

    def cluster_store(self) -> pathlib.Path:
        """A CommitLog in four files, records of 280 to 560 bytes."""
        return self._made("cluster", 280, True, log_only=True, file_mib=self.mib // 4)


def read_through(path: pathlib.Path) -> None:
    """Bring a file (or all files below a directory) into the page cache."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.read(16 << 20):
                pass
