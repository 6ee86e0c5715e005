"""MessageStoreConfig: the settings of a store, with Java's names in snake_case and Java's defaults."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

from rmqcore._native.format.layout import (
    CQ_STORE_UNIT_SIZE,
    DEFAULT_ENTRIES,
    DEFAULT_SLOTS,
    index_file_size,
)
from rmqcore.config.broker_conf import (
    describe_unknown,
    field_of,
    java_name,
    parse_value,
    read_properties,
    wrong_in_file,
)
from rmqcore.config.broker_keys import IGNORED_KEYS
from rmqcore.config.fields import (
    BROKER_ROLES,
    FLUSH_TYPES,
    check_extra,
    parse_delay_levels,
    parse_hours,
    rule_of,
    setting,
)
from rmqcore.config.unused import UNUSED, warn_unused
from rmqcore.errors.arguments import SettingError
from rmqcore.errors.near_names import LIKENESS_OF_SETTINGS, did_you_mean
from rmqcore.shown.html_tables import values_html
from rmqcore.shown.report import Report
from rmqcore.vocabulary.rocketmq_versions import parse_version
from rmqcore.vocabulary.units import INT_MAX, LONG_MAX


@dataclass(frozen=True, kw_only=True)
class MessageStoreConfig(Report):
    """Settings of a store.

    **Units.** As in Java: sizes in bytes, intervals and timeouts in milliseconds, ``file_reserved_time`` in
    hours, ``*_ratio`` in percent, ``*_least_pages`` in pages of 4096 bytes. Enum values are their Java names.

    One default differs from Java: ``check_commit_log_offset_on_recover`` is on (docs/compat.md). docs/config.md says of
    each field what it does here.

    Raises
    ------
    ValueError
        A value has the wrong type, is outside its range or choices, or would make results wrong; the
        message names the field.
    TypeError
        The field is unknown; the message has the nearest name.

    Warns
    -----
    UnusedSettingWarning
        A field's value differs from its default, and this release ignores the field; one warning per field.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageStoreConfig.
    """

    # Paths; None means the usual place under the store's root
    store_path_root_dir: str | None = setting(None, is_path=True)
    store_path_commit_log: str | None = setting(None, is_path=True)
    read_only_commit_log_store_paths: str | None = setting(None, is_path=True)
    # Files
    mapped_file_size_commit_log: int = setting(1024 * 1024 * 1024, least=64)
    mapped_file_size_consume_queue: int = setting(300_000 * CQ_STORE_UNIT_SIZE, least=1)
    mapper_file_size_batch_consume_queue: int = setting(300_000 * 46, least=46)
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = setting(48 * 1024 * 1024, least=64)
    bit_map_length_consume_queue_ext: int = 64
    # Index
    message_index_enable: bool = True
    message_index_safe: bool = False
    max_hash_slot_num: int = setting(DEFAULT_SLOTS, least=1)
    max_index_num: int = setting(DEFAULT_ENTRIES, least=2)
    max_msgs_num_batch: int = setting(64, least=1)
    default_query_max_num: int = 32
    index_file_write_enable: bool = True
    index_file_read_enable: bool = True
    # Messages
    max_message_size: int = setting(4 * 1024 * 1024, least=1)
    auto_message_version_on_topic_len: bool = True
    max_topic_length: int = setting(127, least=1)
    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", parse=parse_delay_levels
    )
    flush_delay_offset_interval: int = setting(10_000, most=LONG_MAX)
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20_000
    enabled_append_prop_crc: bool = False
    force_verify_prop_crc: bool = False
    # Not in Java: refuse messages that this release of RocketMQ cannot read, such as "4.9".
    for_version: str | None = setting(None, parse=parse_version, in_java=False)
    # Recovery
    check_crc_on_recover: bool = True
    check_commit_log_offset_on_recover: bool = True
    commit_log_recover_max_num: int = setting(10, least=1)
    recheck_reput_offset_from_cq: bool = False
    # Not in Java, which always does this: without a CommitLog file delete the queues and start again at offset 0.
    recover_without_commit_log: bool = setting(False, in_java=False)
    # Not in Java: the number of newest log bytes to compare with queues and index after an unclean exit.
    recover_check_bytes: int = setting(1024 * 1024 * 1024, most=LONG_MAX, in_java=False)
    # Not in Java: bytes per second for the thread that compares old log, queues and index with each other.
    scrub_enable: bool = setting(False, in_java=False)
    scrub_bytes_per_second: int = setting(16 * 1024 * 1024, least=1, in_java=False)
    duplication_enable: bool = False
    # Flush and commit
    flush_disk_type: str = setting("ASYNC_FLUSH", one_of=FLUSH_TYPES)
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
    os_page_cache_busy_time_out_mills: int = setting(1000, most=LONG_MAX)
    use_reentrant_lock_when_put_message: bool = True
    use_abs_lock: bool = False
    topic_queue_lock_num: int = setting(32, least=1)
    enable_build_consume_queue_concurrently: bool = False
    # Reading
    read_un_committed: bool = False
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = setting(32, least=1)
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = setting(8, least=1)
    access_message_in_memory_max_ratio: int = setting(40, most=100)
    max_filter_message_size: int = setting(16_000, least=20)
    travel_cq_file_num_when_get_message: int = setting(1, least=1)
    offset_check_in_slave: bool = False
    # Cleaning
    delete_when: str = setting("04", parse=parse_hours)
    file_reserved_time: int = 72
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    delete_file_batch_max: int = 10
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000
    disk_max_used_space_ratio: int = setting(75, most=100)
    disk_space_warning_level_ratio: int = setting(90, most=100)
    disk_space_clean_forcibly_ratio: int = setting(85, most=100)
    clean_file_forcibly_enable: bool = True
    replicas_per_disk_partition: int = setting(1, least=1)
    logical_disk_space_clean_forcibly_threshold: float = setting(0.8, most=1)
    # Replication
    broker_role: str = setting("ASYNC_MASTER", one_of=BROKER_ROLES)
    ha_listen_port: int = setting(10912, most=65_535)
    ha_send_heartbeat_interval: int = 5000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = setting(32 * 1024, least=1)
    ha_max_gap_not_in_sync: int = 256 * 1024 * 1024
    ha_master_address: str | None = None
    total_replicas: int = setting(1, least=1)
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    all_ack_in_sync_state_set: bool = False
    enable_auto_in_sync_replicas: bool = False
    # All other keys of a broker.conf
    extra: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False, hash=False)

    def __new__(cls, **values: Any) -> Self:
        """Refuse an unknown field with the nearest name, which the `__init__` of a dataclass would not suggest."""
        check_names(values)
        made = super().__new__(cls)
        object.__setattr__(made, "_given", frozenset(values))
        return made

    def __post_init__(self) -> None:
        self._settle(("extra", *_NAMES))

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields as plain objects: a pickle cannot hold the read-only view in `extra`."""
        return {**vars(self), "extra": dict(self.extra)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, extra=MappingProxyType(state["extra"]))

    def changed(self, **values: Any) -> MessageStoreConfig:
        """Return a copy with other values. Unlike `dataclasses.replace` it warns of these values alone.

        Raises
        ------
        ValueError, TypeError
            As the constructor.
        """
        check_names(values)
        changed = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(changed, name, value)
        object.__setattr__(changed, "_given", self.given.union(values))
        changed._settle(values)  # noqa: SLF001
        return changed

    def _settle(self, names: Iterable[str]) -> None:
        """Check fields, and warn of fields that this release ignores."""
        for name in names:
            value = getattr(self, name)
            if name == "extra":
                check_extra(value)
                object.__setattr__(self, name, MappingProxyType(dict(value)))
                continue
            rule = _RULES[name]
            if rule.is_path and isinstance(value, os.PathLike):
                value = os.fspath(value)
                object.__setattr__(self, name, value)
            rule.check(name, _TYPES[name], value)
            if value != _DEFAULTS[name] and name in UNUSED:
                warn_unused(f"{name} ({java_name(name)}) has no effect: {UNUSED[name]}")
        for sizes, size in (
            (("mapped_file_size_consume_queue",), self.consume_queue_file_size),
            (("max_hash_slot_num", "max_index_num"), self.index_file_size),
        ):
            if size > INT_MAX:
                raise SettingError(sizes, f"a file of {size} bytes, Java maps at most {INT_MAX}")
        if self.for_version is not None and self.is_slave:
            raise SettingError(
                ("for_version", "broker_role"),
                "a SLAVE's log is a copy of its master's: set for_version at the master",
            )
        most, room = self.max_message_size, self.mapped_file_size_commit_log
        if "max_message_size" in names and room < most != _DEFAULTS["max_message_size"]:
            warn_unused(
                f"max_message_size: {most} exceeds the {room} bytes of a CommitLog file; messages "
                "that do not fit get MESSAGE_ILLEGAL"
            )

    @property
    def given(self) -> frozenset[str]:
        """Names of the fields that were set explicitly, to the default or another value; the others have Java's defaults.

        `rmqcore.open` reads the sizes of an existing store's files from the files, unless they were set explicitly.
        """
        names: frozenset[str] = vars(self)["_given"]
        return names

    def _repr_html_(self) -> str:
        """Return a table of the values set explicitly or found in a store's files; `as_dict` has all."""
        values = self.as_dict()
        given: dict[str, object] = {name: values[name] for name in values if name in self.given}
        given["all other fields"] = f"{len(values) - len(given)}, with Java's defaults"
        return values_html("MessageStoreConfig", given)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delays of the levels 1, 2, ... in milliseconds."""
        return parse_delay_levels(self.message_delay_level)

    @property
    def is_slave(self) -> bool:
        """True if this store follows a master: `broker_role` is SLAVE."""
        return self.broker_role == "SLAVE"

    @property
    def takes_no_puts(self) -> bool:
        """True if the store refuses puts: a SLAVE only accepts them with `duplication_enable`.

        Notes
        -----
        Source: RocketMQ 5.5.0 HookUtils#checkBeforePutMessage.
        """
        return self.is_slave and not self.duplication_enable

    @property
    def syncs_puts(self) -> bool:
        """True if puts wait until their bytes are on disk: `flush_disk_type` is SYNC_FLUSH."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def corrects_offsets(self) -> bool:
        """True if a get outside the queue names the offset to continue at.

        A slave leaves that to its master, which may have more messages, unless `offset_check_in_slave` is set.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#nextOffsetCorrection.
        """
        return not self.is_slave or self.offset_check_in_slave

    @property
    def consume_queue_file_size(self) -> int:
        """Bytes of a ConsumeQueue file: the configured size rounded up to whole entries of 20 bytes."""
        return -(-self.mapped_file_size_consume_queue // CQ_STORE_UNIT_SIZE) * CQ_STORE_UNIT_SIZE

    @property
    def index_file_size(self) -> int:
        """Bytes of an IndexFile: header, slots, entries."""
        return index_file_size(self.max_hash_slot_num, self.max_index_num)

    @classmethod
    def from_broker_conf(cls, path: str | os.PathLike[str], **overrides: Any) -> MessageStoreConfig:
        """Read a broker's configuration file.

        Keys that a store does not use are kept in `extra`. An unknown key is kept there too, and a warning names
        the nearest known key. The old spelling ``maped...`` of the ``mapped...`` keys
        is understood, and the other way round.

        Parameters
        ----------
        path : path-like
        **overrides
            Fields by their names here; they win over the file.

        Raises
        ------
        ValueError
            A value is invalid, or the file is not a settings file; the message names file, line and key.
        TypeError
            An override is not a field.
        OSError
            The file cannot be read.
        """
        check_names(overrides)
        names = set(_NAMES)
        values: dict[str, Any] = {}
        places: dict[str, tuple[str, int]] = {}
        extra: dict[str, str] = {}
        try:
            written = read_properties(path)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None
        try:
            for key, (text, line) in written.items():
                name = field_of(key, names)
                if name is not None:
                    places[name] = (key, line)
                    values[name] = parse_value(name, _TYPES[name], text)
                    continue
                extra[key] = text
                if key not in IGNORED_KEYS:
                    unknown = describe_unknown(key, names)
                    warnings.warn(f"{os.fspath(path)}:{line}: {unknown}", stacklevel=2)
            for name in overrides:
                places.pop(name, None)
            return cls(**{**values, "extra": extra, **overrides})
        except SettingError as error:
            raise wrong_in_file(path, error, places) from None


_FIELDS = [f for f in fields(MessageStoreConfig) if f.name != "extra"]
_NAMES = tuple(f.name for f in _FIELDS)
_TYPES = {f.name: str(f.type) for f in _FIELDS}
_RULES = {f.name: rule_of(f) for f in _FIELDS}
_DEFAULTS = {f.name: f.default for f in _FIELDS}


def check_names(values: Iterable[str]) -> None:
    """Check that all names are fields.

    Raises
    ------
    TypeError
        The field is unknown; the message has the nearest name.
    """
    for name in values:
        if name in _TYPES or name == "extra":
            continue
        meant = did_you_mean(
            field_of(name, set(_NAMES)) or name,
            _NAMES,
            likeness=LIKENESS_OF_SETTINGS,
            otherwise="; docs/config.md lists them",
        )
        raise TypeError(f"unknown setting {name}{meant}")
