"""``treadle cabling``: cables of a fabric, written and checked."""

from __future__ import annotations

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine
from treadle.cli.status import FAILED
from treadle.inputs.problem import resolve_topology
from treadle.options.building import CablingCheck, CablingList, Racks
from treadle.options.rows import keywords, reject
from treadle.options.shared import Seed
from treadle.render.building import cabling_check_rows, cabling_list_rows


def list_command(o: CablingList) -> int:
    """Write the cables of a fabric: ports, racks, lengths, bundles, and planes of optical switches."""
    output = Output.of(o)
    check_racks(o)
    fabric = resolve_topology(o.topology)
    with ProgressLine(quiet=output.is_silent) as progress:
        built = planning.cabling(fabric, progress=progress, **keywords(o, Racks, Seed))
    if o.output is not None:
        write_bytes(o.output, built.sheet.csv().encode())
    output.show(cabling_list_rows(built, o.output))
    return 0


def check_command(o: CablingCheck) -> int:
    """Find missing, swapped and wrong cables, and the fewest plugs to move."""
    output = Output.of(o)
    report = planning.check_cabling(o.planned, o.observed, host=o.host)
    output.show(cabling_check_rows(report))
    return FAILED if report.steps else 0


def check_racks(o: Racks) -> None:
    """FormatError for an option that is about racks where there are none."""
    if o.rack_size is None:
        reject(o, ("floor", "objective"), "valid only with racks; give --rack-size too")
