"""Errors of replication: why a slave cannot follow its master."""

from __future__ import annotations

from rmqcore.errors.stores import StoreError, WithFields


class HaProtocolError(WithFields, StoreError):
    """Bytes at an HA port are neither a report nor a frame; the connection is closed.

    Parameters
    ----------
    part : str
        What was read: ``report`` or ``frame``.
    field : str
        ``phy_offset`` or ``body_size``.
    expected, found : object
        What the field should hold, and what it holds.
    """

    part: str
    field: str
    expected: object
    found: object

    code = "HA_PROTOCOL"
    hint = (
        "check haListenPort and haMasterAddress: the peer must use RocketMQ's HA protocol "
        "(DefaultHAService)"
    )

    def __str__(self) -> str:
        return f"{self.part} of the HA port: {self.field} is {self.found}, expected {self.expected}"


class LogsPartedError(WithFields, StoreError):
    """A slave's log has bytes that its master's log lacks: replication stops, and nothing is overwritten.

    Parameters
    ----------
    phy_offset : int
        CommitLog offset at which the logs differ or one of them ends; they may differ before it
        too.
    slave_end, master_end : int
        CommitLog offsets where the logs end; -1 if unknown.
    reason : str
        How the difference was found.
    """

    phy_offset: int
    slave_end: int
    master_end: int
    reason: str

    code = "LOGS_PARTED"
    hint = (
        "`rmqcore diff A B` on copies shows the messages that only one store has; `rmqcore serve "
        "STORE --role SLAVE ... --truncate-to-master` moves the slave's to STORE/cut/, then "
        "follows"
    )

    def __str__(self) -> str:
        ends = f"the slave's log ends at phy_offset {self.slave_end}"
        if self.master_end >= 0:
            ends += f", its master's at {self.master_end}"
        return (
            f"the logs of master and slave differ at phy_offset {self.phy_offset} or before it: "
            f"{self.reason}; {ends}"
        )


class NoCommonRecordError(LogsPartedError):
    """The logs of a slave and its master have no record in common: nothing is cut.

    Parameters
    ----------
    phy_offset : int
        CommitLog offset from which on both have a log.
    slave_end, master_end : int
        As for LogsPartedError.
    """

    code = "NO_COMMON_RECORD"
    hint = (
        "check that the address is that of this store's master; if it is, start the slave with an "
        "empty store, and keep this one"
    )

    def __init__(self, phy_offset: int, slave_end: int, master_end: int) -> None:
        super().__init__(phy_offset, slave_end, master_end, "they have no record in common")
        self.args = phy_offset, slave_end, master_end


class LogGapError(WithFields, StoreError):
    """A master has deleted files that its slave lacks: the slave's log cannot continue without a gap.

    Parameters
    ----------
    slave_end : int
        CommitLog offset where the slave's log ends.
    master_begin : int
        CommitLog offset where the master's begins.
    """

    slave_end: int
    master_begin: int

    code = "LOG_GAP"
    hint = "start the slave with an empty store; its old store stays readable"

    def __str__(self) -> str:
        return (
            f"the slave's log ends at phy_offset {self.slave_end}, and the master's begins at "
            f"{self.master_begin}: {self.master_begin - self.slave_end} bytes are deleted at the "
            "master"
        )
