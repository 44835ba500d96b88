"""The table of ``design --against``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output


def print_rivals(output: Output, found: planning.Rivalry, notation: str) -> None:
    """The chosen fabric, and what people build: what each takes, and what it attains.

    Two tables, so that all of it fits a narrow terminal; the fabric goes by its notation.
    """
    taken, attained = [], []
    own = found.rows[0].name
    for row in found.rows:
        name = notation + row.name.removeprefix(own) if row.name.startswith(own) else row.name
        allreduce, exchange = found.for_equal_price(row)
        bound = "<= " if row.is_bound else ""
        cables = f"{row.cables / row.nodes:.1f}"
        price = f"{float(row.price_per_node):,.0f}"
        taken.append((name, str(row.nodes), str(row.ports), cables, str(row.switches), price))
        attained.append(
            (
                name,
                str(row.steps),
                f"{float(row.t_b):.3f}",
                f"{bound}{row.alltoall:.3f}",
                f"{allreduce:.2f}",
                f"{bound}{exchange:.2f}",
            )
        )
    price_heading = f"{found.prices.currency} a node"
    output.line()
    output.table(("against", "nodes", "ports", "cables", "switches", price_heading), taken)
    output.line()
    output.table(("", "steps", "T_B", "all-to-all", "allreduce*", "all-to-all*"), attained)
    output.line()
    output.line(
        "            ports and cables a node; T_B in M/B, all-to-all in B, B of all ports of a node; <= by "
        "distances"
    )
    output.line("            *: throughput for the same money, in that of the first row")
    output.line(f"prices      {found.prices.source}")
