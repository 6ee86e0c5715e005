"""The attributes of a topic, and how a request changes them: ``+name=value`` or ``-name``.

Source: RocketMQ 5.5.0 AttributeUtil#alterCurrentAttributes, TopicAttributes, SubscriptionGroupAttributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rmqcore.vocabulary.units import LONG_MAX

_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Allowed values of an attribute: one of `values`, or a number of at least `least`."""

    values: frozenset[str] = frozenset()
    least: int = 0
    changeable: bool = True

    def check(self, value: str) -> None:
        """Refuse a value that the attribute does not allow.

        Raises
        ------
        ValueError
        """
        if self.values:
            if value not in self.values:
                among = ", ".join(sorted(self.values))
                raise ValueError(f"value is not in set: [{among}]")
        elif not _WHOLE.fullmatch(value) or not self.least <= int(value) <= LONG_MAX:
            raise ValueError(f"value is not in range({self.least}, {LONG_MAX})")


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    "queue.type": Attribute(frozenset({"BatchCQ", "SimpleCQ"}), changeable=False),
    "cleanup.policy": Attribute(frozenset({"DELETE", "COMPACTION"}), changeable=False),
    "message.type": Attribute(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
    ),
    "reserve.time": Attribute(least=-1),
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}
"""RocketMQ knows none."""


def parse_attributes(text: str) -> dict[str, str]:
    """Read changes of attributes: ``+key1=value1,-key2``. An empty text has none.

    Raises
    ------
    ValueError
        The text is not a list of changes, or names a key twice.

    Notes
    -----
    Source: RocketMQ 5.5.0 AttributeParser#parseToMap.
    """
    changes: dict[str, str] = {}
    for change in text.split(",") if text else ():
        key, equals, value = change.partition("=")
        if equals and "+" not in key:
            raise ValueError(f"add/alter attribute format is wrong: {key}")
        if not equals and "-" not in key:
            raise ValueError(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise ValueError(f"key duplication: {key}")
        changes[key] = value
    return changes


def changed_attributes(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes after a request; `current` is None if the request creates the topic or group.

    Raises
    ------
    ValueError
        A change is invalid or not allowed.
    """
    attributes = dict(current or {})
    seen = set()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if not name or "+" in name or "-" in name:
            raise ValueError("kv string format wrong.")
        if name in seen:
            raise ValueError(f"alter duplication key. key: {name}")
        seen.add(name)
        if current is None and sign != "+":
            raise ValueError(f"only add attribute is supported while creating topic. key: {name}")
        if sign not in ("+", "-"):
            raise ValueError(f"wrong format key: {name}")
        if sign == "-" and name not in attributes:
            raise ValueError(f"attempt to delete a nonexistent key: {name}")
        _apply(known, name, value if sign == "+" else None, attributes, new=current is None)
    return attributes


def _apply(
    known: Mapping[str, Attribute],
    name: str,
    value: str | None,
    attributes: dict[str, str],
    *,
    new: bool,
) -> None:
    """Set an attribute, or delete it if `value` is None."""
    attribute = known.get(name)
    if attribute is None:
        raise ValueError(f"unsupported key: {name}")
    if not new and not attribute.changeable:
        raise ValueError(f"attempt to update an unchangeable attribute. key: {name}")
    if value is None:
        del attributes[name]
    else:
        attribute.check(value)
        attributes[name] = value
