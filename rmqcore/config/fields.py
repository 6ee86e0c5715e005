"""Allowed values of the settings: `setting` declares them in the line of a field of MessageStoreConfig.

Imports only the errors, units and the versions of RocketMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any

from rmqcore.errors.arguments import SettingError
from rmqcore.vocabulary.units import DAY_MS, HOUR_MS, INT_MAX, LONG_MAX, MINUTE_MS, SECOND_MS

FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
BROKER_ROLES = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")
DELAY_UNITS_MS = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_RULE = "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Allowed values of a setting, beside the type of its field.

    Attributes
    ----------
    least, most : int
        Bounds of a number, which is a Java int unless `most` is LONG_MAX.
    one_of : tuple of str
        The allowed names of a text; empty: any text.
    is_path : bool
        A text is a path: not empty, no NUL.
    parse : callable, optional
        Called with the text; raises SettingError if it cannot parse the text.
    in_java : bool
        True if RocketMQ has the setting.
    """

    least: int = 0
    most: int = INT_MAX
    one_of: tuple[str, ...] = ()
    is_path: bool = False
    parse: Callable[[str], object] | None = None
    in_java: bool = True

    def check(self, name: str, kind: str, value: object) -> None:
        """Check the value of a field; `kind` is the field's type as annotated.

        Raises
        ------
        SettingError
            The value has another type, is out of range or is not one of the names.
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
            self._check_number(name, value)
        if isinstance(value, str):
            self._check_text(name, value)

    def _check_number(self, name: str, value: float) -> None:
        if not self.least <= value <= self.most:  # a NaN is not either
            # Python refuses to print a number of very many digits.
            long = isinstance(value, int) and value.bit_length() > 1000
            shown = "a number with hundreds of digits" if long else value
            raise SettingError((name,), f"expected {self.least} to {self.most}, got {shown}")

    def _check_text(self, name: str, value: str) -> None:
        if self.one_of and value not in self.one_of:
            raise SettingError((name,), f"expected one of {', '.join(self.one_of)}, got {value!r}")
        if self.parse is not None:
            self.parse(value)
        if self.is_path and (not value or "\0" in value):
            raise SettingError((name,), f"expected a path, got {value!r}")


def setting(
    default: object,
    *,
    least: int = 0,
    most: int = INT_MAX,
    one_of: tuple[str, ...] = (),
    is_path: bool = False,
    parse: Callable[[str], object] | None = None,
    in_java: bool = True,
) -> Any:
    """Declare a field of a dataclass with a default and a `Rule`, whose attributes are the parameters."""
    rule = Rule(
        least=least, most=most, one_of=one_of, is_path=is_path, parse=parse, in_java=in_java
    )
    return field(default=default, metadata={_RULE: rule})


def rule_of(one: Field[Any]) -> Rule:
    """Return the rule of a field; without `setting`, any value of its type is allowed."""
    rule: Rule = one.metadata.get(_RULE, Rule())
    return rule


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
