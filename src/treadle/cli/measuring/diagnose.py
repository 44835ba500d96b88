"""``treadle diagnose``."""

from __future__ import annotations

from treadle.api.diagnose import diagnose
from treadle.cli.fabric_arguments import import_keywords, left_of, print_warnings, read_fabric
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.status import USAGE, fail
from treadle.errors import FormatError
from treadle.options.measuring import Diagnose
from treadle.options.rows import keywords
from treadle.options.shared import TimeLimit
from treadle.render.measuring import diagnosis_rows


def command(o: Diagnose) -> int:
    """Explain a measured busbw: % of rings, of the optimum, and what in the log makes it slow."""
    output = Output.of(o)
    topology, imports = None, import_keywords(o)
    if o.fabric is not None:
        imported = read_fabric(o.fabric, o)
        if not o.quiet:
            print_warnings(imported)
        topology, imports = left_of(imported.topology, o.without), {}
    elif o.without:
        raise FormatError("--without is about the fabric of --topology; a log's own tree lacks what failed")
    with ProgressLine(quiet=output.is_silent) as progress:
        found = diagnose(
            o.log,
            topology=topology,
            collective=o.collective,
            progress=progress,
            **keywords(o, TimeLimit),
            **imports,
        )
    output.show(diagnosis_rows(found, output.rates))
    reason = found.missing or (
        found.unchecked_tables[0][1] if found.unchecked_tables and not found.checked_tables else ""
    )
    if found.late:
        return late(f"not known: {', '.join(found.late)}; allow more (--time-limit)")
    return fail(f"{o.log}: {reason}", USAGE) if reason else 0
