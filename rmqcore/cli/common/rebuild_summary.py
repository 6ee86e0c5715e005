"""Prints the summary of a rebuild, for `rmqcore rebuild` and the rebuilds of `rmqcore spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore.cli.common.output import counted, human_bytes, print_line
from rmqcore.cli.common.shown import printable

SHOWN = 10
"""Ranges of records in no queue that are printed; the JSON has more."""

if TYPE_CHECKING:
    from rmqcore.maintenance.rebuild.report import RebuildReport


def print_summary(report: RebuildReport, *, applied: bool) -> None:
    """Print what was built, as lines for people."""
    rate = f", {human_bytes(int(report.record_bytes / report.seconds))}/s" if report.seconds else ""
    lines = [
        f"{counted(report.records, 'record')} of {human_bytes(report.record_bytes)} in {report.seconds:.1f} s{rate}"
    ]
    if "consumequeue" in report.parts:
        lines.append(
            f"{counted(report.queue_entries, 'entry')} of {counted(report.queues, 'queue')} in "
            f"{counted(report.queue_files, 'file')}"
        )
    if "index" in report.parts:
        lines.append(
            f"{counted(report.index_entries, 'index entry')} in {counted(report.index_files, 'file')}"
        )
    if report.filled_entries:
        lines.append(
            f"fillers in place of damaged records: {counted(report.filled_entries, 'entry')}"
        )
    if report.ignored_records:
        lines.append(f"records that are in no queue: {counted(report.ignored_records, 'record')}")
    lines += [
        f"  {one.topic} {one.queue_id}: queue offsets {one.first_queue_offset} to {one.last_queue_offset}, records at "
        f"{one.first_phy_offset} to {one.last_phy_offset}: {one.why}"
        for one in report.set_aside[:SHOWN]
    ]
    lines += [printable(str(one)) for one in report.misnamed[:SHOWN]]
    if len(report.misnamed) > SHOWN:
        lines.append(f"... and {len(report.misnamed) - SHOWN:,} more: --json lists them")
    if report.idle_queues:
        lines.append(
            f"empty queues whose end offsets are kept: {counted(report.idle_queues, 'queue')}"
        )
    if report.dropped_entries:
        lines.append(
            f"dropped: {counted(report.dropped_entries, 'entry')}; the old directories are kept: "
            f"{', '.join(report.kept)}"
        )
    lines.append("in the store" if applied else f"in {report.out}")
    for line in lines:
        print_line(line)
