"""A slave's side of replication: a thread appends the bytes from the HA port, and a task in the loop finds the master.

Source: RocketMQ 5.5.0 DefaultHAClient.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from rmqcore.broker.broker import Broker
from rmqcore.broker.network.ha_line import HaLine, LineCounts
from rmqcore.broker.network.master_broker import MasterBroker
from rmqcore.broker.network.name_server_link import parse_address
from rmqcore.broker.network.registration import Registration
from rmqcore.broker.state.replication import ByteRate, MasterInfo
from rmqcore.errors import CorruptMessageError, LogGapError, LogsPartedError, StoreError
from rmqcore.ha.common_end import CommonEnd, find_common_end
from rmqcore.ha.slave import Question, Slave

LAG_MS = 5_000
"""Milliseconds between two looks at the end of the master's log, by which the lag is told."""
AGAIN_AFTER_S = 5.0
"""Seconds from a connection that was lost, or could not be made, to the next try."""
_LOG = logging.getLogger("rmqcore.broker")
_STAYS = LogsPartedError, LogGapError, CorruptMessageError
"""Errors that another try does not cure: an operator has to."""


class HaSlave:
    """Follows a master until `stop`. Its methods are called by the loop's thread only.

    Parameters
    ----------
    broker : Broker
        Its store is a SLAVE.
    registration : Registration
        Knows what name servers say of the master.
    from_first : bool
        A store that holds nothing begins with the master's first file, not with its last.
    truncates : bool
        If the logs have parted, find where the slave's has to be cut; see `cut`.

    Attributes
    ----------
    cut : CommonEnd or None
        Where the process that opens the store next has to cut the log before it can follow the master. Once it is set,
        the slave no longer follows.
    on_cut : callable
        Called when `cut` is set.
    """

    def __init__(
        self,
        broker: Broker,
        registration: Registration,
        *,
        from_first: bool = False,
        truncates: bool = False,
    ) -> None:
        self._from_first = from_first
        self._truncates = truncates
        self.cut: CommonEnd | None = None
        self.on_cut: Callable[[], object] = lambda: None
        self._broker = broker
        self._registration = registration
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rmqcore-ha-slave")
        self._task: asyncio.Task[None] | None = None
        self._line: HaLine | None = None
        self._ended = False
        self._said = ""
        self._error = ""
        self._ha_address = ""
        self.master_broker = MasterBroker(broker, registration)
        self._counts = LineCounts()
        self._rate = ByteRate(time.monotonic())
        broker.replication.master = self.info
        self._caught_up_at = time.monotonic()
        self._asking: asyncio.Task[None] | None = None
        broker.every(1_000, self._look)
        broker.every(LAG_MS, self._ask_for_end)

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop following, after the received bytes are appended."""
        self._ended = True
        for task in (self._task, self._asking):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._line is not None:
            self._line.end()
        self.master_broker.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    def info(self) -> MasterInfo:
        """Describe the master."""
        counts, lag_bytes = self._counts, self._lag_bytes()
        return MasterInfo(
            ha_address=self._ha_address,
            address=self.master_broker.address or "",
            connected=self._line is not None and self._line.is_connected,
            last_read_ms=counts.last_read_ms,
            last_write_ms=counts.last_write_ms,
            bytes_per_second=self._rate.rate,
            master_end=self.master_broker.end,
            lag_bytes=lag_bytes,
            lag_s=time.monotonic() - self._caught_up_at if lag_bytes else 0.0,
            error=self._error,
        )

    def _look(self) -> None:
        self._rate.look(self._counts.received_bytes, time.monotonic())
        if not self._lag_bytes():
            self._caught_up_at = time.monotonic()

    def _lag_bytes(self) -> int:
        return max(0, self.master_broker.end - self._broker.store.max_phy_offset)

    def _ask_for_end(self) -> None:
        if self._asking is None or self._asking.done():
            looks = self.master_broker.look_at_end()
            self._asking = asyncio.get_running_loop().create_task(looks)

    # ---- the loop's part

    async def _run(self) -> None:
        while not self._ended:
            try:
                await self._follow_or_find_cut()
            except (StoreError, OSError, ValueError) as error:
                self._failed(error)
            except Exception:  # noqa: BLE001 a bug must not end the replication for good
                _LOG.exception("replication from %s failed; trying again", self._ha_address)
            if self.cut is not None:
                self.on_cut()
                return
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _follow_or_find_cut(self) -> None:
        """Follow the master; if the logs have parted and `truncates` is set, find where this one has to be cut."""
        try:
            await self._follow_once()
        except LogsPartedError as parted:
            if not self._truncates:
                raise
            self._error = str(parted)
            log = await self.master_broker.log_of(self._ha_address)
            if log is None:
                raise ConnectionError(
                    "--truncate-to-master: the master's broker cannot be reached, and only it "
                    "knows where its log begins and ends"
                ) from parted
            _LOG.warning(
                "master %s: %s; searching the last common record", self._ha_address, parted
            )
            self.cut = await asyncio.get_running_loop().run_in_executor(
                self._thread, find_common_end, self._broker.store, *log, self._ask
            )
            if self.cut is None:  # the master's bytes at this log's end are not a record
                raise

    def _ask(self, phy_offset: int) -> Generator[tuple[int, memoryview], None, None]:
        """Ask the master for its log from an offset on; called by the thread."""
        question = Question(phy_offset, self._broker.store.config, time.monotonic())
        place = parse_address(self._ha_address, "haMasterAddress")
        line = self._line = HaLine(place, self._broker.now_ms, self._counts)
        try:
            if self._ended:
                line.end()
            for _ in line.steps(question):
                yield from question.take()
        except ConnectionError as error:
            raise ConnectionError(
                f"{error}, of which the log was asked from phy_offset {phy_offset} on"
            ) from None
        finally:
            line.close()
        raise ConnectionError("the comparison was cancelled")

    async def _follow_once(self) -> None:
        """Connect to the master, and follow it until that ends with an error."""
        ha_address = self._find_master()
        if ha_address is None:
            self._registration.register_all()  # a name server answers with the master's address
            raise ConnectionError(
                "the master's address is unknown: haMasterAddress is not set, and no name server "
                "knows a master of this broker name"
            )
        place = parse_address(ha_address, "haMasterAddress")
        self._ha_address = ha_address
        first = await self._check_master(ha_address)
        if self._from_first:
            await self._begin_with_first(first)
        line = self._line = HaLine(place, self._broker.now_ms, self._counts)
        try:
            follow = partial(self._follow, line, first)
            await asyncio.get_running_loop().run_in_executor(self._thread, follow)
        finally:
            line.end()

    def _follow(self, line: HaLine, master_first: int | None) -> None:
        """Append the bytes received until the line ends or fails; called by the thread.

        Raises
        ------
        OSError
            The connection fails or is lost.
        StoreError, ValueError
            As for `Slave.data_received`.
        """
        store = self._broker.store
        slave = Slave.at_end(store, master_first, time.monotonic(), from_first=self._from_first)
        is_followed, asked_to = False, -1
        try:
            for _ in line.steps(slave):
                if slave.has_read and slave.is_alike and not is_followed:
                    is_followed = True
                    self._broker.loop.call_soon_threadsafe(self._followed)
                if store.config.syncs_puts and asked_to < store.max_phy_offset:
                    # Bytes are reported once they are on disk.
                    asked_to = store.max_phy_offset
                    store.on_flushed(asked_to, lambda _: line.ring())
        finally:
            line.close()

    def _find_master(self) -> str | None:
        configured = self._broker.store.config.ha_master_address
        if configured:
            return configured
        found = self._registration.master
        return None if found is None else found.ha_address or None

    async def _check_master(self, ha_address: str) -> int | None:
        """Ask the master's broker where its log starts and ends; return the start, None if no broker answers.

        Raises
        ------
        LogsPartedError
            The master's log is shorter than this one.
        LogGapError
            The master's log starts behind the end of this one.
        """
        log = await self.master_broker.log_of(ha_address)
        if log is None:
            return None
        first, end = log
        own_first, own_end = self._broker.store.min_phy_offset, self._broker.store.max_phy_offset
        if end < own_end:
            raise LogsPartedError(end, own_end, end, "the slave's is longer than its master's")
        if own_first < own_end < first:
            raise LogGapError(own_end, first)
        self.master_broker.sync_now()
        return first

    async def _begin_with_first(self, master_first: int | None) -> None:
        """Store the master's first record in an empty log if that record lies at 0, which an HA port does not send.

        Raises
        ------
        ConnectionError
            The master's broker does not say where its log starts, or has no record there.
        """
        store = self._broker.store
        if store.min_phy_offset < store.max_phy_offset:
            return
        if master_first is None:
            raise ConnectionError(
                "--ha-from first: the master's broker cannot be reached, and only it knows where "
                "its log begins"
            )
        if master_first == 0 < self.master_broker.end:
            record = await self.master_broker.record_at(0)
            if record is None:
                raise ConnectionError("--ha-from first: the master has no record at phy_offset 0")
            await asyncio.get_running_loop().run_in_executor(
                self._thread, store.append_raw, 0, record
            )

    def _followed(self) -> None:
        """Note that the logs match; called in the loop's thread."""
        if self._said:
            _LOG.warning("following master %s again", self._ha_address)
        else:
            _LOG.info("following master %s", self._ha_address)
        self._said = self._error = ""

    def _failed(self, error: BaseException) -> None:
        """Log why the master is not followed: once, until the reason changes or the master was followed again."""
        self._error = str(error)
        if self._ended or self._said == self._kind(error):
            return
        self._said = self._kind(error)
        where = self._ha_address or "of this slave"
        if isinstance(error, _STAYS):
            text = "cannot follow master %s: %s; nothing was written. %s"
            _LOG.error(text, where, str(error), str(error.hint))
        else:
            _LOG.warning(
                "cannot follow master %s: %s; trying again every %g s",
                where,
                str(error) or type(error).__name__,
                AGAIN_AFTER_S,
            )

    @staticmethod
    def _kind(error: BaseException) -> str:
        """Name the kind of an error; connection errors are one kind, as reset and refused alternate between tries."""
        return "OSError" if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
