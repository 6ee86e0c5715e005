"""docs/compat.md has the table of the releases whose stores the night tries; `python scripts/versiontable.py` writes it."""

from __future__ import annotations

import runpy
from pathlib import Path

from interop.versions.releases import RELEASES, VERIFIED

from rmqcore.vocabulary.rocketmq_versions import (
    IPV6_HOSTS_SINCE,
    V2_RECORDS_SINCE,
    parse_version,
    readable_records,
)

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "compat.md").read_text()


def test_the_table_has_all_releases() -> None:
    assert runpy.run_path(str(ROOT / "scripts" / "versiontable.py"))["written"](PAGE) == PAGE
    assert set(VERIFIED) <= set(RELEASES)


def test_a_release_on_each_side_of_what_changed_is_tried() -> None:
    tried = {parse_version(release) for release in RELEASES}
    for since in (IPV6_HOSTS_SINCE, V2_RECORDS_SINCE):
        assert min(tried) < since <= max(tried)
    assert not readable_records(RELEASES[0]).all
    assert readable_records(RELEASES[-1]).all
