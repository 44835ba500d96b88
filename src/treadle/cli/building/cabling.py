"""``treadle cabling``: cables of a fabric, written and checked."""

from __future__ import annotations

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.building.cabling_report import check_racks, print_cabling
from treadle.cli.output import Output, ProgressLine
from treadle.cli.quantities import counted
from treadle.cli.status import FAILED
from treadle.options.building import CablingCheck, CablingList, Racks
from treadle.options.rows import keywords
from treadle.options.shared import Seed
from treadle.planning.problem import resolve_topology


def list_command(o: CablingList) -> int:
    """Write the cables of a fabric: ports, racks, lengths, bundles, and planes of optical switches."""
    output = Output.of(o)
    check_racks(o)
    fabric = resolve_topology(o.topology)
    with ProgressLine(quiet=output.is_silent) as progress:
        built = planning.cabling(fabric, progress=progress, **keywords(o, Racks, Seed))
    output.line(f"fabric      {fabric.name}: {counted(len(built.sheet.wires), 'cable')}")
    print_cabling(output, built)
    values = {"topology": fabric.name, **planning.cabling_summary(built)}
    if o.output is not None:
        write_bytes(o.output, built.sheet.text().encode())
        output.line(f"cabling     {o.output}")
        values["cabling"] = str(o.output)
    output.result(values)
    return 0


def check_command(o: CablingCheck) -> int:
    """Find missing, swapped and wrong cables, and the fewest plugs to move."""
    output = Output.of(o)
    report = planning.check_cabling(o.planned, o.observed, host=o.host)
    output.line(
        f"cables      {report.n_planned} planned, {report.n_seen} seen ({report.kind}), "
        f"{report.n_right} right"
    )
    for doubt in report.doubts:
        output.line(f"doubt       {doubt}")
    if report.steps:
        output.line()
        rows = [
            (
                str(place),
                str(step.fault),
                str(step.action),
                planning.plug_text(step.at),
                planning.plug_text(step.to) + (" (pull its plug first)" if step.is_held else ""),
                "" if step.stays is None else planning.plug_text(step.stays),
            )
            for place, step in enumerate(report.steps, start=1)
        ]
        output.table(("", "fault", "do", "plug at", "to", "other end stays"), rows, left=6)
        output.line()
    output.line(
        f"to do       {counted(report.n_moves, 'plug')} to move, "
        f"{counted(report.n_missing, 'cable')} to lay, {report.n_surplus} to take out; no fewer do"
    )
    output.result(planning.check_summary(report))
    return FAILED if report.steps else 0
