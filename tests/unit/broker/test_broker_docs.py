"""What docs/broker.md says of settings is what there is."""

from __future__ import annotations

import re
from dataclasses import fields

from support.places import ROOT

from rmqcore.broker.handlers.admin.broker_settings import CHANGEABLE
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker_conf import java_name

ROW = re.compile(r"^\| `(\w+)`( \*)? \| (?:`(.*)`)? \| .+ \|$", re.MULTILINE)


def test_each_setting_has_its_row() -> None:
    text = (ROOT / "docs/broker.md").read_text(encoding="utf-8")
    told = ROW.findall(text.partition("## Settings")[2].partition("\n## ")[0])
    expected = []
    for field in fields(BrokerSettings):
        value = "" if field.default is None else str(field.default)
        if isinstance(field.default, bool):
            value = value.lower()
        expected.append((java_name(field.name), " *" if field.name in CHANGEABLE else "", value))
    assert told == expected
