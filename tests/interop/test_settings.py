"""Names and defaults of all settings are those of the real MessageStoreConfig, and every other name that it has is known."""

from __future__ import annotations

import dataclasses

from interop.java_process import JavaProcess

from rmqcore import MessageStoreConfig
from rmqcore.config.broker_conf import java_name
from rmqcore.config.broker_keys import IGNORED_KEYS
from rmqcore.config.fields import rule_of

OTHER_DEFAULTS = {"storePathRootDir": "None", "checkCommitLogOffsetOnRecover": "true"}
"""The first is the home directory there; docs/compat.md has the second."""


def test_names_and_defaults_are_javas(java: JavaProcess) -> None:
    want: dict[str, str] = {
        name: {"null": "None"}.get(text, text) for name, text in java.call("defaults").items()
    }
    ours = {
        java_name(field.name): str(field.default)
        for field in dataclasses.fields(MessageStoreConfig)
        if field.name != "extra" and rule_of(field).in_java
    }
    ours = {name: {"True": "true", "False": "false"}.get(text, text) for name, text in ours.items()}
    assert {name: text for name, text in ours.items() if want.get(name) != text} == OTHER_DEFAULTS
    assert set(want) - set(ours) <= IGNORED_KEYS
