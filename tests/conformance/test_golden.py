"""The golden set is what Apache RocketMQ wrote: a file that is lost or changed fails here, and no test regenerates it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_the_archive_is_the_recorded_one() -> None:
    digest, name = (HERE / "golden.tar.xz.sha256").read_text().split()
    assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize(
    ("files", "folder"), [("files", "storeDir"), ("recoveredFiles", "recoveredDir")]
)
def test_every_file_is_the_one_in_its_manifest(golden: Path, files: str, folder: str) -> None:
    checked = 0
    for path in sorted(golden.glob("*/manifest.json")):
        manifest = json.loads(path.read_text())
        for entry in manifest.get(files, []):
            data = (path.parent / manifest[folder] / entry["path"]).read_bytes()
            assert len(data) == entry["size"], f"{path.parent.name}/{entry['path']}"
            assert hashlib.sha256(data).hexdigest() == entry["sha256"], (
                f"{path.parent.name}/{entry['path']}"
            )
            checked += 1
    assert checked > 100
