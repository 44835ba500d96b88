"""The table of ``bound --size``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output
from treadle.planning.measuring.size_bounds import PROOF_KINDS, size_reasons
from treadle.schedules.collective import busbw_factor
from treadle.units import format_size


def print_size_bounds(output: Output, result: planning.BoundResult) -> None:
    """The least time of each size by its proofs, and who or what those are of."""
    if not result.at_sizes:
        return
    assert result.cost_model is not None
    output.line()
    output.line(f"least times costs {result.cost_model.name}; the latest of the proofs, each checked anew")
    factor = float(busbw_factor(result.collective.kind, result.collective.group_size))
    named = any(one.protocol for one in result.at_sizes)
    headings = ["size", "least (us)", f"busbw ({output.rates.column})", "by"]
    found = {proof.witness.kind for one in result.at_sizes for proof in one.proofs}
    kinds = [kind for kind in PROOF_KINDS if kind in found]
    headings += kinds + (["protocol"] if named else [])
    rows = []
    for one in result.at_sizes:
        times = [one.time_by(kind) for kind in kinds]
        busbw = one.size_bytes / float(one.time) * factor if one.time else 0.0
        cells = [format_size(one.size_bytes), f"{float(one.time) * 1e6:.2f}", output.rates.number(busbw, 3)]
        cells += [one.reason, *("-" if time is None else f"{float(time) * 1e6:.2f}" for time in times)]
        rows.append(cells + ([one.protocol] if named else []))
    output.table(headings, rows, left=0, least=[*headings[4:]])
    for line in size_reasons(result.topology, result.collective, result.at_sizes):
        output.line(line)
