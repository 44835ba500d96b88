"""The table of ``design --against``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output


def print_rivals(output: Output, found: planning.Rivalry) -> None:
    """The chosen fabric, and what people build, with what each costs."""
    money = found.prices.currency
    rows = []
    for row in found.rows:
        allreduce, exchange = found.for_equal_price(row)
        bound = "<= " if row.is_bound else ""
        rows.append(
            (
                row.name,
                str(row.nodes),
                str(row.ports),
                f"{row.cables / row.nodes:.1f}",
                str(row.switches),
                str(row.steps),
                f"{float(row.t_b):.3f}",
                f"{bound}{row.alltoall:.3f}",
                f"{float(row.price_per_node):,.0f}",
                f"{allreduce:.2f}",
                f"{bound}{exchange:.2f}",
            )
        )
    heads = (
        *("against", "nodes", "ports", "cables", "switches", "steps", "T_B", "all-to-all"),
        *(f"{money} a node", "allreduce*", "all-to-all*"),
    )
    output.line()
    output.table(heads, rows, left=1, least=("cables", "switches", "ports", "steps", "T_B", "nodes"))
    output.line()
    output.line(
        "            ports and cables a node; T_B in M/B, all-to-all in B, B of all ports of a node; <= by "
        "distances"
    )
    output.line("            *: throughput for the same money, in that of the first row")
    output.line(f"prices      {found.prices.source}")
