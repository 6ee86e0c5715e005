"""The settings that decide on what is deleted: their names, other values for a what-if, and values that do not fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.config.broker_conf import field_of, java_name, parse_value
from rmqcore.engine.clean.rules import CleanRules
from rmqcore.errors.arguments import SettingError
from rmqcore.errors.near_names import did_you_mean

RULES = (
    "delete_when",
    "file_reserved_time",
    "disk_max_used_space_ratio",
    "disk_space_clean_forcibly_ratio",
    "disk_space_warning_level_ratio",
    "clean_file_forcibly_enable",
    "delete_file_batch_max",
    "clean_resource_interval",
    "replicas_per_disk_partition",
    "logical_disk_space_clean_forcibly_threshold",
)
"""Fields of MessageStoreConfig that a cleaning round uses."""


def rule_settings(config: MessageStoreConfig) -> dict[str, Any]:
    """Return the values of these settings, by Java's names."""
    return {java_name(name): getattr(config, name) for name in RULES}


def changed_rules(config: MessageStoreConfig, what_if: Mapping[str, object]) -> MessageStoreConfig:
    """Return a configuration with other values.

    Parameters
    ----------
    config : MessageStoreConfig
    what_if : mapping
        Values, or their texts as in a broker.conf, by Java's names or by those of the fields.

    Raises
    ------
    ValueError
        Unknown setting, or one that does not affect deletions; or a value that it cannot have.
    """
    values: dict[str, object] = {}
    keys: dict[str, str] = {}
    for key, value in what_if.items():
        name = key if key in RULES else field_of(key, set(RULES))
        if name is None:
            raise ValueError(_unknown(key))
        if name in values:
            raise ValueError(f"{java_name(name)} is given twice, also as {key}")
        kind = type(getattr(config, name)).__name__
        values[name] = parse_value(key, kind, value) if isinstance(value, str) else value
        keys[name] = key
    try:
        return config.changed(**values)
    except SettingError as error:
        raise error.renamed(keys) from None


def _unknown(key: str) -> str:
    names = [java_name(name) for name in RULES]
    meant = did_you_mean(key, [*names, *RULES], otherwise=f"; those that do: {', '.join(names)}")
    return f"{key}: no setting of this name affects cleaning{meant}"


def odd_rules(config: MessageStoreConfig) -> list[str]:
    """Return sentences about ratios that count as another one, or are out of order."""
    rules, notes = CleanRules(config), []
    taken = {
        "disk_max_used_space_ratio": rules.most_used,
        "disk_space_clean_forcibly_ratio": rules.forced,
        "disk_space_warning_level_ratio": rules.warning,
    }
    for name, ratio in taken.items():
        if round(ratio * 100) != getattr(config, name):
            notes.append(
                f"{java_name(name)}={getattr(config, name)} counts as {ratio:.0%}, as in RocketMQ"
            )
    for (low, low_ratio), (high, high_ratio) in pairwise(taken.items()):
        if low_ratio > high_ratio:
            notes.append(
                f"{java_name(low)} ({low_ratio:.0%}) is above {java_name(high)} ({high_ratio:.0%}): the second takes effect "
                "before the first"
            )
    return notes
