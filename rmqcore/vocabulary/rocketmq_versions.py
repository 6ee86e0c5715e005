"""Records that a release of RocketMQ cannot read, and at which it cuts its log. Imports only errors."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.errors.arguments import SettingError

OLDEST = (4, 0)
IPV6_HOSTS_SINCE = (4, 6)
"""The first release that reads hosts of 16 bytes: MessageSysFlag has BORNHOST_V6_FLAG."""
V2_RECORDS_SINCE = (5, 1)
"""The first release that reads records of version 2: MessageVersion has MESSAGE_VERSION_V2."""
MOST_TOPIC_BYTES_V1 = 127


@dataclass(frozen=True, slots=True)
class ReadableRecords:
    """The records that a release reads. At any other record its recovery ends the log.

    Attributes
    ----------
    most_topic_bytes : int or None
        UTF-8 bytes of the longest topic; None where the release reads every topic.
    ipv6_hosts : bool
        Whether BORNHOST and STOREHOST may be IPv6 addresses.
    """

    most_topic_bytes: int | None = None
    ipv6_hosts: bool = True

    @property
    def all(self) -> bool:
        """True if the release reads every record."""
        return self.most_topic_bytes is None and self.ipv6_hosts

    def reads(self, topic: str, *hosts: str) -> bool:
        """Return True if the release reads a record of a topic with these hosts, each ``"ip:port"`` or ``"[v6]:port"``."""
        if not self.ipv6_hosts and any(host.startswith("[") for host in hosts):
            return False
        return self.most_topic_bytes is None or len(topic.encode()) <= self.most_topic_bytes

    def describe(self) -> str:
        """Return the records that the release cannot read, as the object of a sentence; empty if it reads all."""
        unread = [] if self.ipv6_hosts else ["IPv6 hosts"]
        if self.most_topic_bytes is not None:
            unread.append(f"topics of more than {self.most_topic_bytes} bytes")
        return " and ".join(unread)


def parse_version(text: str) -> tuple[int, int]:
    """Return major and minor number of a release, from a text such as ``"4.9"`` or ``"4.9.8"``.

    Raises
    ------
    SettingError
        The text is not the number of a release, or the release is before 4.0.
    """
    parts = text.split(".")
    if not 2 <= len(parts) <= 3 or not all(
        part.isascii() and part.isdigit() and len(part) <= 4 for part in parts
    ):
        raise SettingError(
            ("for_version",), f"expected a RocketMQ release such as '4.9', got {text!r}"
        )
    version = int(parts[0]), int(parts[1])
    if version < OLDEST:
        raise SettingError(("for_version",), f"expected 4.0 or later, got {text!r}")
    return version


def readable_records(for_version: str | None) -> ReadableRecords:
    """Return the records that the release of a setting `for_version` reads; None: all records.

    Raises
    ------
    SettingError
        The text is not the number of a release.

    Notes
    -----
    Source: RocketMQ 4.5.2, 4.6.0, 5.0.0 and 5.1.0 CommitLog#checkMessageAndReturnSize, MessageSysFlag, MessageVersion.
    """
    if for_version is None:
        return ReadableRecords()
    version = parse_version(for_version)
    return ReadableRecords(
        most_topic_bytes=None if version >= V2_RECORDS_SINCE else MOST_TOPIC_BYTES_V1,
        ipv6_hosts=version >= IPV6_HOSTS_SINCE,
    )
