"""`--for-version` of the verbs that write records."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

from rmqcore.cli.verbs import serve as verb
from rmqcore.config import MessageStoreConfig


def test_a_salvage_for_an_old_release(rmqcore: Run, tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store").fill(3)
    unread = built.put(sys_flag=oracle.BORN_V6)
    built.put()
    done = rmqcore("salvage", built.write(), tmp_path / "out", "--for-version", "4.5.2", "--json")
    assert done.code == 2
    (lost,) = done.object["lost"]
    assert lost["start_phy_offset"] == unread.phy_offset
    assert lost["expected"] == "IPv4 for RocketMQ 4.5.2"
    done = rmqcore("salvage", built.root, tmp_path / "new", "--for-version", "4.6", "--json")
    assert (done.code, done.object["messages"]) == (0, 5)


def test_records_that_are_in_the_store_already(rmqcore: Run, tmp_path: Path) -> None:
    """Doctor and recover said nothing of them; RocketMQ 4.5.2 ends its log at the first."""
    built = BuiltStore(tmp_path / "store").fill(3)
    unread = built.put(sys_flag=oracle.BORN_V6)
    built.put()
    root = built.write()
    done = rmqcore("doctor", root, "--for-version", "4.5.2", "--json")
    (found,) = [one for one in done.object["diagnoses"] if one["name"] == "unread_by_release"]
    assert found["evidence"][0]["phy_offset"] == unread.phy_offset
    assert "1 record" in found["evidence"][0]["found"]
    (tmp_path / "broker.conf").write_text("forVersion=4.5.2\n")
    done = rmqcore("recover", root, "--config", tmp_path / "broker.conf", "--json")
    assert done.object["scan"]["unread"]["first_phy_offset"] == unread.phy_offset


@pytest.mark.parametrize(
    "words", [("salvage", "{store}", "{store}-out"), ("serve", "{store}"), ("doctor", "{store}")]
)
def test_what_is_not_a_release(rmqcore: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    built = BuiltStore(tmp_path / "store").fill(3)
    built.write()
    given = [word.format(store=built.root) for word in words]
    done = rmqcore(*given, "--for-version", "old")
    assert done.code == 1
    assert "for_version" in done.err
    assert "such as '4.9', got 'old'" in done.err
    assert not (tmp_path / "store-out").exists()


def test_serve_opens_the_store_for_an_old_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[MessageStoreConfig] = []

    class EndHereError(Exception):
        pass

    def note(_: Path, config: MessageStoreConfig) -> None:
        opened.append(config)
        raise EndHereError

    monkeypatch.setattr(verb, "open_store", note)
    with pytest.raises(EndHereError):
        verb.serve(tmp_path / "new", for_version="4.9")
    assert [config.for_version for config in opened] == ["4.9"]
