"""What docs/broker.md says of settings is what there is, and its script of `ServedBroker` prints what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from support.pages import fenced_blocks
from support.places import ROOT

from rmqcore.broker.handlers.admin.broker_settings import CHANGEABLE
from rmqcore.broker.settings import BrokerSettings
from rmqcore.config.broker_conf import java_name

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


def test_the_script_of_a_broker_prints_what_stands_below_it(tmp_path: Path) -> None:
    blocks = fenced_blocks("docs/broker.md")
    (number,) = [i for i, block in enumerate(blocks) if "import ServedBroker" in block.text]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[number].text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (blocks[number + 1].language, blocks[number + 1].text) == ("text", done.stdout)
