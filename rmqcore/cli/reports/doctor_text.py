"""Diagnoses as text for a terminal."""

from __future__ import annotations

import textwrap

from rich.text import Text

from rmqcore.cli.common import styles
from rmqcore.cli.common.output import counted, human_bytes, terminal_console
from rmqcore.cli.common.shown import folded, printable
from rmqcore.maintenance.doctor.report import (
    ERROR,
    INFO,
    SEVERITIES,
    WARNING,
    Diagnosis,
    DoctorReport,
)

SHOWN_EVIDENCE = 5
"""Most evidence of a diagnosis on a terminal; the JSON has 20."""
STYLES = {ERROR: styles.BAD, WARNING: styles.DOUBTFUL, INFO: styles.HEAD}
MOST_WIDTH = 100


def print_diagnoses(report: DoctorReport) -> None:
    """Print a report for people."""
    console = terminal_console()
    width = min(console.width, MOST_WIDTH)
    first, *others = folded(f"store {printable(report.path)}", width, inside=True)
    console.print(Text.assemble((first[:5], styles.HEAD), first[5:]), soft_wrap=True)
    for other in others:
        console.print(Text(other), soft_wrap=True)
    for diagnosis in report.diagnoses:
        head = Text.assemble(
            "\n",
            (diagnosis.severity, STYLES[diagnosis.severity]),
            " ",
            (diagnosis.name, styles.HEAD),
        )
        console.print(head)
        for line in _lines(diagnosis, width):
            console.print(line, soft_wrap=True)
    console.print(_verdict(report))


def _lines(diagnosis: Diagnosis, width: int) -> list[Text]:
    lines = [Text(line) for line in _wrapped(diagnosis.cause, "  ", width)]
    shown = diagnosis.evidence[:SHOWN_EVIDENCE]
    for seen in shown:
        lines += [Text(line) for line in _wrapped(f"- {printable(str(seen))}", "  ", width, "    ")]
    more = diagnosis.evidence_count - len(shown)
    if more:
        lines.append(Text(f"  - and {more:,} more: --json lists them"))
    lines += [Text(line) for line in _wrapped(f"next: {diagnosis.next_step}", "  ", width)]
    if diagnosis.command:
        lines.append(Text.assemble("  $ ", (printable(diagnosis.command), styles.HEAD)))
    return lines


def _wrapped(text: str, indent: str, width: int, then: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=then or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _verdict(report: DoctorReport) -> Text:
    counts = report.counts
    found = ", ".join(counted(counts[name], name) for name in SEVERITIES if name in counts)
    unread = not report.thorough and report.log_bytes_read < report.log_bytes
    word = ("no problem in the parts that were read" if unread else "healthy", styles.GOOD)
    if report.exit_code:
        word = ("sick", styles.BAD)
    elif WARNING in counts:
        word = ("needs a look", styles.DOUBTFUL)
    looked = "everything was compared" if report.thorough else "--thorough compares everything"
    if unread:
        parts = human_bytes(report.log_bytes_read), human_bytes(report.log_bytes)
        looked = "read {} of the log's {}, of the rest only the ends of files; {}".format(
            *parts, looked
        )
    return Text.assemble(
        "\n", word, f": {found or 'nothing found'} in {report.seconds:.1f} s; {looked}"
    )
