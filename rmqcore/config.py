"""MessageStoreConfig: the settings of a store, with Java's names in snake_case and Java's defaults."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from rmqcore.broker_conf import describe_unknown, field_of, parse_value, read_properties
from rmqcore.broker_keys import IGNORED_KEYS

CHOICES = {
    "flush_disk_type": ("ASYNC_FLUSH", "SYNC_FLUSH"),
    "broker_role": ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
}
DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Java longs; every other number is a Java int.
LONGS = frozenset({"flush_delay_offset_interval", "os_page_cache_busy_time_out_mills"})
# Sizes and counts that nothing works with below these.
AT_LEAST = {
    "mapped_file_size_commit_log": 64,
    "mapped_file_size_consume_queue": 1,
    "mapper_file_size_batch_consume_queue": 46,
    "mapped_file_size_consume_queue_ext": 64,
    "max_hash_slot_num": 1,
    "max_index_num": 2,
    "max_message_size": 1,
    "max_msgs_num_batch": 1,
    "max_filter_message_size": 20,
    "travel_cq_file_num_when_get_message": 1,
    "commit_log_recover_max_num": 1,
    "topic_queue_lock_num": 1,
    "max_transfer_count_on_message_in_memory": 1,
    "max_transfer_count_on_message_in_disk": 1,
}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Give the delays of the levels 1, 2, ... in milliseconds, from a text such as ``"1s 5s 1m 2h"``.

    Raises
    ------
    ValueError
        A word that is no whole number with s, m, h or d after it.

    Notes
    -----
    Source: RocketMQ 5.5.0 ScheduleMessageService#parseDelayLevel.
    """
    delays = []
    for word in text.split():
        number, unit = word[:-1], word[-1]
        if unit not in DELAY_UNITS_MS or not (number.isascii() and number.isdigit()):
            raise ValueError(
                f"message_delay_level: {word!r} is no delay (a number and s, m, h or d)"
            )
        delays.append(int(number) * DELAY_UNITS_MS[unit])
    return tuple(delays)


@dataclass(frozen=True, kw_only=True)
class MessageStoreConfig:
    """Settings of a store.

    **Units.** As in Java: sizes in bytes, intervals and timeouts in milliseconds, ``file_reserved_time`` in
    hours, ``*_ratio`` in percent, ``*_least_pages`` in pages of 4096 bytes. Enum values are their Java names.

    One default differs from Java: ``check_commit_log_offset_on_recover`` is on (docs/compat.md).

    Raises
    ------
    ValueError
        A value of the wrong type, out of its range or not one of the names; the message names the field.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageStoreConfig.
    """

    # Paths; None: under the store's root
    store_path_root_dir: str | None = None
    store_path_commit_log: str | None = None
    read_only_commit_log_store_paths: str | None = None
    # Files
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * 20
    mapper_file_size_batch_consume_queue: int = 300_000 * 46
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    bit_map_length_consume_queue_ext: int = 64
    # Index
    message_index_enable: bool = True
    message_index_safe: bool = False
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32
    index_file_write_enable: bool = True
    index_file_read_enable: bool = True
    # Messages
    max_message_size: int = 4 * 1024 * 1024
    auto_message_version_on_topic_len: bool = True
    max_topic_length: int = 127
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20_000
    enabled_append_prop_crc: bool = False
    force_verify_prop_crc: bool = False
    # Recovery
    check_crc_on_recover: bool = True
    check_commit_log_offset_on_recover: bool = True
    commit_log_recover_max_num: int = 10
    recheck_reput_offset_from_cq: bool = False
    # Not Java's: without a CommitLog file it deletes the queues and begins anew at offset 0.
    recover_without_commit_log: bool = False
    duplication_enable: bool = False
    # Flush and commit
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_commit_log_timed: bool = True
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5000
    slave_timeout: int = 3000
    put_message_timeout: int = 8000
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    warm_maped_file_enable: bool = False
    flush_least_pages_when_warm_maped_file: int = 4096
    write_without_mmap: bool = False
    put_consume_queue_data_by_file_channel: bool = True
    os_page_cache_busy_time_out_mills: int = 1000
    use_reentrant_lock_when_put_message: bool = True
    use_abs_lock: bool = False
    topic_queue_lock_num: int = 32
    enable_build_consume_queue_concurrently: bool = False
    # Reading
    read_un_committed: bool = False
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    max_filter_message_size: int = 16_000
    travel_cq_file_num_when_get_message: int = 1
    offset_check_in_slave: bool = False
    # Cleaning
    delete_when: str = "04"
    file_reserved_time: int = 72
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    delete_file_batch_max: int = 10
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000
    disk_max_used_space_ratio: int = 75
    disk_space_warning_level_ratio: int = 90
    disk_space_clean_forcibly_ratio: int = 85
    clean_file_forcibly_enable: bool = True
    replicas_per_disk_partition: int = 1
    logical_disk_space_clean_forcibly_threshold: float = 0.8
    # Replication
    broker_role: str = "ASYNC_MASTER"
    ha_listen_port: int = 10912
    ha_send_heartbeat_interval: int = 5000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32 * 1024
    ha_max_gap_not_in_sync: int = 256 * 1024 * 1024
    ha_master_address: str | None = None
    total_replicas: int = 1
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    all_ack_in_sync_state_set: bool = False
    enable_auto_in_sync_replicas: bool = False
    # What else a broker.conf held
    extra: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        for f in fields(self):
            if f.name != "extra":
                _check(f.name, str(f.type), getattr(self, f.name))
        parse_delay_levels(self.message_delay_level)
        object.__setattr__(self, "extra", MappingProxyType(dict(self.extra)))

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delays of the levels 1, 2, ... in milliseconds."""
        return parse_delay_levels(self.message_delay_level)

    @property
    def consume_queue_file_size(self) -> int:
        """Bytes of a ConsumeQueue file: the configured size rounded up to whole entries of 20 bytes."""
        return -(-self.mapped_file_size_consume_queue // 20) * 20

    @property
    def index_file_size(self) -> int:
        """Bytes of an IndexFile: header, slots, entries."""
        return 40 + 4 * self.max_hash_slot_num + 20 * self.max_index_num

    @classmethod
    def from_broker_conf(cls, path: str | os.PathLike[str], **overrides: Any) -> MessageStoreConfig:
        """Read a broker's configuration file as it is.

        Keys that a store has no use for are kept in `extra`. One that no part of RocketMQ knows is kept there
        too, and a warning names the nearest known one. The old spelling ``maped...`` of the ``mapped...`` keys
        is understood, and the other way round.

        Parameters
        ----------
        path : path-like
        **overrides
            Fields by their names here; they win over the file.

        Raises
        ------
        ValueError
            A value that its field cannot take.
        OSError
            The file cannot be read.
        """
        names = {f.name for f in fields(cls)} - {"extra"}
        values: dict[str, Any] = {}
        extra: dict[str, str] = {}
        for key, text in read_properties(path).items():
            name = field_of(key, names)
            if name is not None:
                values[name] = parse_value(name, str(cls.__annotations__[name]), text)
                continue
            extra[key] = text
            if key not in IGNORED_KEYS:
                warnings.warn(f"{os.fspath(path)}: {describe_unknown(key, names)}", stacklevel=2)
        return cls(**{**values, "extra": extra, **overrides})


def _check(name: str, kind: str, value: object) -> None:
    right = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "str": isinstance(value, str),
        "str | None": value is None or isinstance(value, str),
    }[kind]
    if not right:
        raise ValueError(f"{name}: expected {kind}, got {value!r}")
    if kind == "int":
        assert isinstance(value, int)
        most = (1 << 63) - 1 if name in LONGS else (1 << 31) - 1
        least = AT_LEAST.get(name, -most - 1)
        if not least <= value <= most:
            raise ValueError(f"{name}: expected {least} to {most}, got {value}")
    if name in CHOICES and value not in CHOICES[name]:
        raise ValueError(f"{name}: expected one of {', '.join(CHOICES[name])}, got {value!r}")
