"""``rmqcore retention``: tables, JSON, a picture, and usage."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run, in_terminal

WHAT_IF = ("--what-if", "fileReservedTime=24")


def with_groups(store: Path) -> Path:
    table = {"TopicBasicA@slow\x1b[31m": {"0": 3}, "TopicBasicB@quick": {"0": 1 << 40}}
    (store / "config").mkdir()
    (store / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return store


def test_json(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = with_groups(store_copy("basic"))
    done = rmqcore("retention", store, *WHAT_IF, "--json")
    assert (done.code, done.err) == (0, "")
    report = done.object
    assert [len(report[name]["files"]) for name in ("present", "what_if")] == [7, 7]
    assert report["present"]["settings"]["fileReservedTime"] == 72
    assert report["what_if"]["settings"]["fileReservedTime"] == 24
    (group,) = report["present"]["groups"]
    assert (group["topic"], group["queue_offset"]) == ("TopicBasicA", 3)
    assert len(rmqcore("retention", store).out.splitlines()) == 1


@pytest.mark.parametrize("columns", ["80", "200"])
def test_tables(store_copy: StoreCopy, columns: str) -> None:
    store = with_groups(store_copy("basic"))
    code, text, _ = in_terminal(
        "retention",
        store,
        *WHAT_IF,
        "--rate",
        "1000",
        streams="stdout",
        COLUMNS=columns,
        NO_COLOR="1",
    )
    assert code == 0
    assert "\x1b[31m" not in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= int(columns)
    for words in ("never", "what if", "00000000000000000000", "fileReservedTime=24", "slow\\x1b"):
        assert words in text


def test_a_picture(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    store = with_groups(store_copy("basic"))
    for name in ("a.png", "b.svg"):
        assert rmqcore("retention", store, *WHAT_IF, "--plot", tmp_path / name).code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "b.svg").read_text()
    assert "slow\\x1b[31m" in text
    assert "deleted: time" in text


@pytest.mark.parametrize(
    "words",
    [
        ("--what-if", "fileReservedTime"),
        ("--what-if", "fileReservTime=3"),
        ("--what-if", "deleteWhen=25"),
        ("--horizon", "0"),
        ("--rate", "-1"),
        ("--now", "noon"),
        ("--plot", "a.txt"),
    ],
)
def test_wrong_usage(rmqcore: Run, golden: Path, words: tuple[str, str]) -> None:
    done = rmqcore("retention", golden / "basic" / "store", *words)
    assert (done.code, done.out) == (64, b"")
    assert words[0] in done.err


def test_settings_of_a_broker_conf(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=5\ndeleteWhen=04;16\n")
    settings = rmqcore("retention", golden / "basic" / "store", "--config", conf, "--json").object
    assert settings["present"]["settings"]["fileReservedTime"] == 5
    conf.write_text("deleteWhen=twelve\n")
    done = rmqcore("retention", golden / "basic" / "store", "--config", conf)
    assert done.code == 1
    assert done.err.startswith(f"Error: {conf}:1: deleteWhen: expected hours of the day")
