"""The settings of a name server that change what it answers.

Source: RocketMQ 5.5.0 NamesrvConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from rmqcore.config.broker_conf import java_name, parse_properties, parse_value
from rmqcore.errors import RequestError


@dataclass(frozen=True, slots=True)
class NameServerBounds:
    """How much other processes may make a name server keep; rmqcore's own.

    Attributes
    ----------
    topics : int
        Topics of all brokers together, counted for each broker; those of a registration that is renewed count twice.
    kv_config_bytes : int
        UTF-8 bytes of all namespaces, keys and texts.
    """

    topics: int = 500_000
    kv_config_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class NameServerSettings:
    """Java's names in snake_case, with Java's defaults.

    Attributes
    ----------
    order_message_enable : bool
        Routes bear what the KV config ``ORDER_TOPIC_CONFIG`` says of their topic.
    return_order_topic_config_to_broker : bool
        A broker that registers gets all of that config.
    support_acting_master : bool
        A route names the slave with the lowest id as master where there is none, if its broker wants that.
    enable_all_topic_list : bool
        All topics may be listed.
    delete_topic_with_broker_registration : bool
        A topic that a broker no longer registers is deleted.
    """

    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    support_acting_master: bool = False
    enable_all_topic_list: bool = True
    delete_topic_with_broker_registration: bool = False

    def as_text(self) -> str:
        """Return all settings as a properties file, sorted by name."""
        lines = [
            f"{java_name(field.name)}={str(getattr(self, field.name)).lower()}\n"
            for field in fields(self)
        ]
        return "".join(sorted(lines))

    def changed(self, request: str, body: bytes) -> NameServerSettings:
        """Return the settings with the changes of a properties file.

        Raises
        ------
        RequestError
            It names a setting that is not one of these, or a value that is none: nothing is changed. Java passes over both.
        """
        known = {java_name(field.name): field.name for field in fields(self)}
        try:
            given = parse_properties(body.decode("utf-8"))
        except ValueError as error:
            raise RequestError(request, "body", "a properties file", error) from None
        values = {}
        for key, text in given.items():
            if key not in known:
                raise RequestError(request, ascii(key)[:100], f"one of {', '.join(known)}", "none")
            try:
                values[known[key]] = bool(parse_value(known[key], "bool", text))
            except ValueError:
                raise RequestError(request, key, "true or false", ascii(text)[:100]) from None
        return replace(self, **values)
