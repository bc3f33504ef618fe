"""The result of an audit in words: one sentence, and a table of the differences."""

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from headrace.cli.showing import entries, plural
from headrace.cli.terminal import output_console

if TYPE_CHECKING:
    from headrace.pipelines.audit import Audit

_LISTED: Final = 20  # differences in the table; JSON has all


def verdict(audit: "Audit") -> str:
    """Say what an audit found."""
    beside = [
        f"{entries(count)} {what}"
        for count, what in ((audit.trimmed, "trimmed since"), (audit.waiting, "not archived yet"))
        if count
    ]
    aside = f" ({', '.join(beside)})" if beside else ""
    equal = f"{entries(audit.entries)} in {plural(len(audit.ranges), 'range')}"
    if audit.equal and not audit.waiting:
        return f"Equal: {equal}{aside}."
    if audit.equal:
        return f"Behind: the archive lacks {entries(audit.waiting)} that came since; equal: {equal}{aside}."
    incomplete = "".join(
        [
            *(f"{key}: deleted and made anew since the last run, nothing of it is archived\n" for key in audit.renewed),
            *(f"{key}: {entries(count)} gone before they were archived\n" for key, count in audit.lost.items()),
        ]
    )
    if not audit.differences:
        return f"{incomplete}Incomplete: the archive lacks what the streams had; equal: {equal}{aside}."
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("stream", "id", "the archive"):
        table.add_column(name, no_wrap=True)
    says = {"missing": "lacks it", "extra": "has it, the stream does not", "changed": "has other fields"}
    for difference in audit.differences[:_LISTED]:
        table.add_row(Text(difference.key), difference.id, says[difference.kind])
    console = output_console()
    with console.capture() as captured:
        console.print(table)
    more = len(audit.differences) - _LISTED
    rest = f"and {more:,} more; --json names all\n" if more > 0 else ""
    ranges = sum(not each.equal for each in audit.ranges)
    return (
        f"{captured.get()}{rest}{incomplete}Different: {entries(len(audit.differences))} in {ranges:,} of "
        f"{plural(len(audit.ranges), 'range')}{aside}."
    )
