"""Producers and consumers of all kinds at `rmqcore serve` while process, disk, network and clock fail: their history is judged.

RMQCORE_ROUND_SECONDS: how long; RMQCORE_SEED repeats the choices. A failure leaves the history in the directory that it names.
"""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doses import LEVEL, dose
from support.eventually import eventually
from support.history.checker import Finding, Stored, check, sends_of
from support.history.clients import (
    BATCH,
    GROUPS,
    LATER,
    ORDER,
    ORDERED,
    PLAIN,
    TOPICS,
    Client,
    Dealer,
    Puller,
    Pushed,
    Sender,
)
from support.history.faults import OUTSIDE_HOST, Disk, Faults, Network, ShiftedClock
from support.history.other_clients import OTHER_TOPICS, other_clients
from support.history.record import History, named_in
from support.places import ROOT
from support.server_process import ServerProcess, fsck

import rmqcore
from rmqcore.client import Admin
from rmqcore.errors import ClientError
from rmqcore.testing.disks.real_cuts import why_not

SECONDS = dose("RMQCORE_ROUND_SECONDS", test=2, verify=2, night=1800)
CALM_S = 3.0
DRAIN_S = 120.0
OTHERS = dose("RMQCORE_ROUND_OTHERS", test=0, verify=0, night=1)
"""Whether the clients of Java and Go take part: they take seconds to begin."""
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "transactionTimeOut": 3_600_000,  # each transaction is ended once, or never
    "mappedFileSizeCommitLog": 1
    << 19,  # one is full within seconds: the next does not fit on a full disk
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
    "cleanFileForciblyEnable": False,  # a full disk takes no messages away that the checker looks for
    "cleanResourceInterval": 1_000,
}
SHOWN = 20
LOG = logging.getLogger(__name__)


class Round:
    """A broker, its clients, and what they saw.

    Attributes
    ----------
    history : History
    faults : Faults
    """

    def __init__(
        self, folder: Path, server: ServerProcess, history: History, rng: random.Random
    ) -> None:
        self.folder = folder
        self.server = server
        self.history = history
        self._rng = rng
        self._senders: list[Client] = []
        self._readers: list[Client] = []
        self.groups: dict[str, tuple[str, ...]] = dict(GROUPS)

    def create_topics(self) -> None:
        """Make all topics, through the proxy."""
        with Admin(self.server.namesrv, timeout=30) as admin:
            for topic, queues in (TOPICS | OTHER_TOPICS).items():
                admin.create_topic(topic, queues=queues)

    def make_clients(self, address: str) -> None:
        """Make those of Python, and those of Java and Go where they are asked for and there."""
        history, namesrv, seed = self.history, self.server.namesrv, self._rng.random
        topics = (PLAIN, PLAIN, BATCH, LATER, ORDER, ORDER)
        self._senders = [
            Sender(f"sender{number}", history, seed(), namesrv, topic)
            for number, topic in enumerate(topics)
        ]
        self._senders.append(Dealer("dealer", history, seed(), lambda: address))
        self._readers = [
            Puller("manual", history, seed(), namesrv, "manual", commits=True, leaves=True),
            Puller("auto1", history, seed(), namesrv, "auto", commits=False),
            Puller("auto2", history, seed(), namesrv, "auto", commits=False, leaves=True),
            Pushed("pushed", history, seed(), namesrv, "pushed", orderly=False),
            Pushed("orderly", history, seed(), namesrv, "orderly", orderly=True),
        ]
        if OTHERS:
            groups, senders, readers = other_clients(self.folder, history, namesrv)
            self._senders += senders
            self._readers += readers
            self.groups |= {group: (topic,) for group, topic in groups.items()}

    def start(self) -> None:
        """Start all clients."""
        for client in (*self._readers, *self._senders):
            client.start()

    def end_senders(self) -> list[Finding]:
        """End all that send."""
        return self._end(self._senders)

    def drain(self) -> None:
        """Wait until every group has all that was acknowledged; what it never gets, the checker names."""
        with contextlib.suppress(AssertionError):
            eventually(self._has_all, within_s=DRAIN_S, poll_s=0.5)

    def _has_all(self) -> bool:
        wanted: dict[str, set[str]] = defaultdict(set)
        for uid, sent in sends_of(self.history.events).items():
            if sent.expected:
                wanted[sent.invoke["topic"]].add(uid)
        had: dict[str, set[str]] = {group: set() for group in self.groups}
        for event in list(self.history.events):
            if event["what"] == "got":
                had[event["group"]].add(event["uid"])
        return all(
            wanted[topic] <= had[group] for group, topics in self.groups.items() for topic in topics
        )

    def end_readers(self) -> list[Finding]:
        """End all that receive."""
        return self._end(self._readers)

    def _end(self, clients: list[Client]) -> list[Finding]:
        for client in clients:
            client.stop()
        found = [
            Finding("hangs", f"{client.name} does not end")
            for client in clients
            if not client.join(120)
        ]
        return found + [
            Finding("raised", f"{client.name}: {client.unexpected!r}")
            for client in clients
            if client.unexpected is not None
        ]


def stored_in(store: Path) -> Iterator[Stored]:
    """Read all messages of a store that no process has open."""
    with rmqcore.read(store) as reader:
        for view in reader.messages():
            uid, named = named_in(view.decompress())
            yield Stored(view.topic, view.queue_id, view.queue_offset, uid, named)


@pytest.fixture
def kept(rng: random.Random) -> Path:
    """Where a failure leaves what it knows; a later run of the same seed takes its place."""
    place = ROOT / "build" / "served-rounds" / f"seed-{getattr(rng, 'start', 0)}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason=f"only Linux has {OUTSIDE_HOST} and prlimit")
def test_what_clients_saw_holds(
    folder: Path, kept: Path, rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    LOG.info("%r, %d s, dose %s, history: %s", rng, SECONDS, LEVEL, kept)
    clock = ShiftedClock(folder) if ShiftedClock.why_not() is None else None
    server = ServerProcess(
        folder,
        "--advertise",
        OUTSIDE_HOST,
        settings=SETTINGS,
        before=clock.before if clock else (),
    )
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(Disk(server.store)) if why_not() is None else None
        history = stack.enter_context(History(kept / "history.jsonl"))
        with server:
            findings, counts = run_round(folder, server, clock, disk, history, rng)
        judge(findings, counts, server, history, kept, rng)
    shutil.rmtree(kept)


def judge(
    findings: list[Finding],
    counts: Counts,
    server: ServerProcess,
    history: History,
    kept: Path,
    rng: random.Random,
) -> None:
    """Look at the history and at the store that the server left; fail if something must not be."""
    code, said = fsck(server.store)
    if code != 0:
        findings.append(Finding("fsck", said[-2000:]))
    if "Traceback" in server.log:
        findings.append(Finding("traceback", server.log[server.log.index("Traceback") :][:3000]))
    stored = list(stored_in(server.store))
    findings += check(history.events, stored, groups=counts.groups, ordered=ORDERED)
    told = Counter(event["what"] for event in history.events)
    LOG.info("faults: %s", counts.faults)
    LOG.info("events: %s, messages in the log: %d", dict(told), len(stored))
    if findings:
        keep(kept, server, findings)
        kinds = Counter(finding.kind for finding in findings)
        shown = "\n".join(f"{one.kind}: {one.text}" for one in findings[:SHOWN])
        pytest.fail(f"{dict(kinds)}, {rng!r}, history in {kept}\n{shown}", pytrace=False)


class Counts:
    """What a round was made of."""

    def __init__(self, faults: dict[str, int], groups: dict[str, tuple[str, ...]]) -> None:
        self.faults = faults
        self.groups = groups


def run_round(
    folder: Path,
    server: ServerProcess,
    clock: ShiftedClock | None,
    disk: Disk | None,
    history: History,
    rng: random.Random,
) -> tuple[list[Finding], Counts]:
    """Let clients and faults be for a time; the server has ended well when it returns, or a finding says how not."""
    running = Round(folder, server, history, rng)
    with Network(server.broker, rng) as network:
        faults = Faults(server, network, clock, disk, history, rng)
        running.create_topics()
        running.make_clients(network.address)
        running.start()
        findings: list[Finding] = []
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                faults.calm(CALM_S)
                faults.next()
        except (AssertionError, ClientError) as error:
            findings.append(Finding("server", repr(error)))
        faults.end()
        LOG.info("the faults are over")
        findings += running.end_senders()
        LOG.info("all is sent")
        running.drain()
        LOG.info("all is received, or time is up")
        findings += running.end_readers()
    if (code := server.stop()) != 0:
        findings.append(Finding("server", f"SIGTERM: exit code {code}"))
    return findings, Counts(faults.counts, running.groups)


def keep(place: Path, server: ServerProcess, findings: list[Finding]) -> None:
    """Put beside the history what shows a failure."""
    shutil.copytree(server.store, place / "store")
    (place / "serve.log").write_text(server.log)
    (place / "findings.txt").write_text("".join(f"{one.kind}: {one.text}\n" for one in findings))
