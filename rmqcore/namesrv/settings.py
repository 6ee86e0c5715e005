"""The settings of a name server that affect its answers.

Source: RocketMQ 5.5.0 NamesrvConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from rmqcore.config.broker_conf import java_name, parse_properties, parse_value
from rmqcore.errors import RequestError


@dataclass(frozen=True, slots=True)
class NameServerBounds:
    """Limits for the data that other processes make a name server keep; rmqcore's own.

    Attributes
    ----------
    topics : int
        Topics of all brokers together, counted for each broker; topics of a renewed registration count twice.
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
        Routes include their topic's text from the KV config ``ORDER_TOPIC_CONFIG``.
    return_order_topic_config_to_broker : bool
        The answer to a registration includes all of ``ORDER_TOPIC_CONFIG``.
    support_acting_master : bool
        If a broker has no master and enables acting masters, routes name its slave with the lowest id as master.
    enable_all_topic_list : bool
        Clients may list all topics.
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
            A setting is unknown or its value invalid: nothing is changed. Java ignores both.
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
