"""The command that users run, with its real parts and few of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqcore.testing import torture
from rmqcore.testing.fault_shim import why_not

PARTS = ["kills", "power-cuts", "calls", "damage"]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, few in {"KILLS_A_ROUND": 1, "CUTS_A_ROUND": 18, "STORES_A_ROUND": 4}.items():
        monkeypatch.setattr(torture, name, few)
    folder = tmp_path / "here"
    parts = [arg for name in PARTS for arg in ("--part", name)]
    code = torture.main([str(folder), "--rounds", "1", "--json", *parts])
    out, err = capsys.readouterr()
    assert code == 0, err
    counts = {part["part"]: part["counts"] for part in json.loads(out)["parts"]}
    assert counts["kills"]["kills"] == 1
    assert counts["power-cuts"]["power cuts"] > 1
    assert counts["calls"]["failed calls"] > 1
    assert counts["damage"]["damaged stores"] > 1
    assert not folder.exists()
