"""Valid values of the fields of MessageStoreConfig. Imports only errors and the versions of RocketMQ."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.errors.arguments import SettingError
from rmqcore.rocketmq_versions import parse_version
from rmqcore.units import DAY_MS, HOUR_MS, INT_MAX, LONG_MAX, MINUTE_MS, SECOND_MS

CHOICES = {
    "flush_disk_type": ("ASYNC_FLUSH", "SYNC_FLUSH"),
    "broker_role": ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
}
DELAY_UNITS_MS = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
NOT_IN_JAVA = frozenset(
    {
        "for_version",
        "recover_check_bytes",
        "recover_without_commit_log",
        "scrub_bytes_per_second",
        "scrub_enable",
    }
)
"""Fields that RocketMQ does not have."""
PATHS = ("store_path_root_dir", "store_path_commit_log", "read_only_commit_log_store_paths")
# Java longs; every other number is a Java int.
LONGS = frozenset(
    {"flush_delay_offset_interval", "os_page_cache_busy_time_out_mills", "recover_check_bytes"}
)
# The least value of a number is 0, of these sizes and counts it is more: nothing works with less.
AT_LEAST = {
    "mapped_file_size_commit_log": 64,
    "mapped_file_size_consume_queue": 1,
    "mapper_file_size_batch_consume_queue": 46,
    "mapped_file_size_consume_queue_ext": 64,
    "max_hash_slot_num": 1,
    "max_index_num": 2,
    "max_message_size": 1,
    "max_msgs_num_batch": 1,
    "max_topic_length": 1,
    "max_filter_message_size": 20,
    "travel_cq_file_num_when_get_message": 1,
    "commit_log_recover_max_num": 1,
    "scrub_bytes_per_second": 1,
    "topic_queue_lock_num": 1,
    "max_transfer_count_on_message_in_memory": 1,
    "max_transfer_count_on_message_in_disk": 1,
    "ha_transfer_batch_size": 1,
    "replicas_per_disk_partition": 1,
    "total_replicas": 1,
}
AT_MOST = {
    "access_message_in_memory_max_ratio": 100,
    "disk_max_used_space_ratio": 100,
    "disk_space_warning_level_ratio": 100,
    "disk_space_clean_forcibly_ratio": 100,
    "logical_disk_space_clean_forcibly_threshold": 1,
    "ha_listen_port": 65_535,
}


def check_value(name: str, kind: str, value: object) -> None:
    """Check the value of a field; `kind` is the field's type as annotated.

    Raises
    ------
    SettingError
        The value has another type, or is outside its range or choices.
    """
    right = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "str": isinstance(value, str),
        "str | None": value is None or isinstance(value, str),
    }[kind]
    if not right:
        raise SettingError((name,), f"expected {kind}, got {value!r}")
    if isinstance(value, int | float) and kind != "bool":
        least = AT_LEAST.get(name, 0)
        most = AT_MOST.get(name, LONG_MAX if name in LONGS else INT_MAX)
        if not least <= value <= most:  # a NaN is not either
            long = (
                isinstance(value, int) and value.bit_length() > 1000
            )  # Python refuses to print it
            shown = "a number with hundreds of digits" if long else value
            raise SettingError((name,), f"expected {least} to {most}, got {shown}")
    if name in CHOICES and value not in CHOICES[name]:
        raise SettingError((name,), f"expected one of {', '.join(CHOICES[name])}, got {value!r}")
    if isinstance(value, str):
        if name in _PARSERS:
            _PARSERS[name](value)
        elif name in PATHS and (not value or "\0" in value):
            raise SettingError((name,), f"expected a path, got {value!r}")


def check_extra(extra: object) -> None:
    """Check the other keys of a ``broker.conf``, with their texts.

    Raises
    ------
    ValueError
        The value is not a mapping of texts to texts.
    """
    right = isinstance(extra, Mapping) and all(
        isinstance(text, str) for item in extra.items() for text in item
    )
    if not right:
        raise ValueError(f"extra: expected a mapping of keys to texts, as in a file, got {extra!r}")


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Parse the delays of the levels 1, 2, ... from a text such as ``"1s 5s 1m 2h"`` into milliseconds.

    Raises
    ------
    SettingError
        A word is not a whole number followed by s, m, h or d, or is too large.

    Notes
    -----
    Source: RocketMQ 5.5.0 ScheduleMessageService#parseDelayLevel.
    """
    delays = []
    for word in text.split():
        number, unit = word[:-1], word[-1]
        if unit not in DELAY_UNITS_MS or not (number.isascii() and number.isdigit()):
            raise SettingError(
                ("message_delay_level",), f"{word!r} is not a delay: use a number and s, m, h or d"
            )
        delay_ms = int(number[:20]) * DELAY_UNITS_MS[unit]
        if len(number) > 20 or delay_ms > LONG_MAX:
            raise SettingError(
                ("message_delay_level",), f"{word!r} does not fit in 64 bits of milliseconds"
            )
        delays.append(delay_ms)
    return tuple(delays)


def parse_hours(text: str) -> tuple[int, ...]:
    """Parse the hours of the day in a text such as ``"04"`` or ``"04;16"``.

    Raises
    ------
    SettingError
        A part is not an hour; like Java, white space is not accepted.

    Notes
    -----
    Source: RocketMQ 5.5.0 UtilAll#isItTimeToDo.
    """
    hours = []
    for hour in text.rstrip(";").split(";"):
        if not (hour.isascii() and hour.isdigit() and len(hour) <= 2 and int(hour) <= 23):
            raise SettingError(
                ("delete_when",), f"expected hours of the day such as '04' or '04;16', got {text!r}"
            )
        hours.append(int(hour))
    return tuple(hours)


_PARSERS: dict[str, Callable[[str], object]] = {
    "message_delay_level": parse_delay_levels,
    "delete_when": parse_hours,
    "for_version": parse_version,
}
