"""What happens to a served broker, to its disk and to its network, in an order that a seed chooses."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from support.history.record import History
from support.hostile_proxy import Harm, HostileProxy
from support.server_process import ServerProcess

from rmqcore.testing.disks.real_cuts import make_image, mounted

OUTSIDE_HOST = "127.0.0.2"
"""Where clients find the broker: a proxy listens there, on the broker's own port."""
FEW_FILES = 3
MOST_PAUSE_S = 4.0
DISK_MB = 8192
"""Of the file system of a store; its image takes what is written."""
MOST_LEFT_BYTES = 1 << 18
SMALLEST_PIECE = 1 << 16


class Network:
    """A proxy in front of a broker, in a thread: all methods may be called from another one."""

    def __init__(self, broker: str, rng: random.Random) -> None:
        place = OUTSIDE_HOST, int(broker.rpartition(":")[2])
        self.address = "{}:{}".format(*place)
        self._proxy = HostileProxy(broker, rng, (Harm.NONE,), place=place)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def change(self, harm: Harm) -> None:
        """Do this to all connections."""
        self._loop.call_soon_threadsafe(self._proxy.change, harm)

    def refuse(self) -> None:
        """Let no connection be."""
        self._loop.call_soon_threadsafe(self._proxy.refuse)

    def heal(self) -> None:
        """Carry all bytes again."""
        self._loop.call_soon_threadsafe(self._proxy.heal)


class ShiftedClock:
    """The wall clock of a process that is started with `before`; `why_not` says why there is none."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "shift"
        self.set(0)
        library = folder / "shifted_clock.so"
        source = Path(__file__).with_name("shifted_clock.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
        self.before = ["env", f"LD_PRELOAD={library}", f"SHIFTED_CLOCK={self._file}"]

    @staticmethod
    def why_not() -> str | None:
        """Say why no clock can be set here; None when it can."""
        if sys.platform != "linux":
            return "only Linux's ld.so preloads it"
        return None if shutil.which("cc") else "there is no C compiler named cc"

    def set(self, seconds: float) -> None:
        """Let the process be that far from the time."""
        data = struct.pack("=q", round(seconds * 1e9))
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(data)  # eight bytes in one call: the mapping of the process sees them whole


class Disk:
    """A file system of its own at `place`, which can be full for a while; to mount it needs root, as `real_cuts.why_not` says."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._filler = place / "filler"
        self._mounted = contextlib.ExitStack()

    def __enter__(self) -> Self:
        image = self._place.with_suffix(".img")
        make_image(image, "ext4", DISK_MB)
        self._mounted.enter_context(mounted(image, self._place, "ext4"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._mounted.close()

    def fill(self, left_bytes: int) -> None:
        """Leave so much room: the file system keeps some blocks to itself, so it is asked until it refuses."""
        end, piece = 0, DISK_MB << 20
        with self._filler.open("wb") as file:
            while piece >= SMALLEST_PIECE:
                try:
                    os.posix_fallocate(file.fileno(), end, piece)
                    end += piece
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2
            file.truncate(end - left_bytes)

    def make_room(self) -> None:
        """Take the filling away."""
        self._filler.unlink()


class Faults:
    """Disturbs one broker. Each fault is over when its method returns.

    Attributes
    ----------
    counts : dict
        How often each was tried.
    """

    def __init__(
        self,
        server: ServerProcess,
        network: Network,
        clock: ShiftedClock | None,
        disk: Disk | None,
        history: History,
        rng: random.Random,
    ) -> None:
        self._server = server
        self._network = network
        self._clock = clock
        self._disk = disk
        self._history = history
        self._rng = rng
        self._wait = threading.Event()
        self._shift_s = 0.0
        all_faults = [
            self.kill,
            self.restart,
            self.pause,
            self.kill_paused,
            self.kill_apart,
            self.refuse,
            self.cut,
            self.delay,
            self.swallow_there,
            self.swallow_back,
            self.half_close,
            self.no_descriptors,
            *([self.step_clock] if clock is not None else []),
            *([self.fill_disk] if disk is not None else []),
        ]
        self._all: list[Callable[[], None]] = all_faults
        self._left: list[Callable[[], None]] = []
        self.counts = {fault.__name__: 0 for fault in all_faults}

    def next(self) -> None:
        """Do one: each comes once before one comes again."""
        if not self._left:
            self._left = self._rng.sample(self._all, len(self._all))
        fault = self._left.pop()
        self.counts[fault.__name__] += 1
        if fault != self.step_clock:
            self._history.add("faults", "fault", name=fault.__name__)
        fault()
        self._history.add("faults", "healed", name=fault.__name__)

    def calm(self, most_s: float) -> None:
        """Let the clients work for a time."""
        self._hold(most_s)

    def end(self) -> None:
        """Make all whole."""
        self._network.heal()
        if self._clock is not None and self._shift_s:
            self._set_clock(0.0)
        if not self._server.is_running():
            self._server.start()

    def _hold(self, most_s: float = MOST_PAUSE_S) -> None:
        self._wait.wait(self._rng.uniform(0.1, most_s))  # the dose of harm

    # ---- the process ----------------------------------------------------------------------------------

    def kill(self) -> None:
        self._server.kill()
        self._server.start()

    def restart(self) -> None:
        code = self._server.stop()
        assert code == 0, f"SIGTERM: exit code {code}"
        self._server.start()

    def pause(self) -> None:
        self._server.signal(signal.SIGSTOP)
        self._hold()
        self._server.signal(signal.SIGCONT)

    def kill_paused(self) -> None:
        self._server.signal(signal.SIGSTOP)
        self._hold(1.0)
        self._server.kill()
        self._server.start()

    def no_descriptors(self) -> None:
        pid = self._server.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (FEW_FILES, hard))
        self._hold()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def fill_disk(self) -> None:
        assert self._disk is not None
        self._disk.fill(self._rng.randrange(MOST_LEFT_BYTES // 8, MOST_LEFT_BYTES))
        self._hold()
        self._disk.make_room()

    def step_clock(self) -> None:
        self._set_clock(self._rng.choice((-600.0, -3.0, -0.5, 0.0, 0.7, 8.0, 600.0)))

    def _set_clock(self, shift_s: float) -> None:
        assert self._clock is not None
        step_s = shift_s - self._shift_s
        self._history.add("faults", "fault", name="step_clock", step_s=step_s)
        self._shift_s = shift_s
        self._clock.set(shift_s)

    # ---- the network ----------------------------------------------------------------------------------

    def kill_apart(self) -> None:
        self._network.change(Harm.SWALLOW_BACK)
        self._hold(1.0)
        self.kill()
        self._network.heal()

    def refuse(self) -> None:
        self._network.refuse()
        self._hold()
        self._network.heal()

    def _disturb(self, harm: Harm) -> None:
        self._network.change(harm)
        self._hold()
        self._network.heal()

    def cut(self) -> None:
        self._disturb(Harm.CUT)

    def delay(self) -> None:
        self._disturb(Harm.DELAY)

    def swallow_there(self) -> None:
        self._disturb(Harm.SWALLOW_THERE)

    def swallow_back(self) -> None:
        self._disturb(Harm.SWALLOW_BACK)

    def half_close(self) -> None:
        self._disturb(Harm.HALF_CLOSE)
