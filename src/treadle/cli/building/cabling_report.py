"""Options and words about cables, shared by ``design`` and ``cabling``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.cli.output import Output
from treadle.cli.quantities import counted
from treadle.errors import FormatError

RackSizeOption = Annotated[
    int | None,
    typer.Option(
        help="Place the nodes in racks of at most so many, and say how long cables are.", metavar="N"
    ),
]
FloorOption = Annotated[
    Path | None, typer.Option(help="Where racks stand, and their size (TOML).", metavar="FILE")
]
ObjectiveOption = Annotated[
    planning.Objective | None,
    typer.Option(help="What the placement makes small: metres (default), or bundles, pairs of racks joined."),
]
OcsOption = Annotated[
    str | None,
    typer.Option(
        help="All cables go through optical switches or patch panels of so many ports, at this price each, "
        "of which there are so many.",
        metavar="PORTS[,PRICE[,COUNT]]",
    ),
]
CostsOption = Annotated[
    Path | None, typer.Option(help="Prices of ports, cables and transceivers (TOML).", metavar="FILE")
]


def check_racks(rack_size: int | None, given: dict[str, object]) -> None:
    """FormatError for an option that is about racks where there are none."""
    for option, value in given.items():
        if rack_size is None and value is not None:
            raise FormatError(f"{option} is about racks; expected --rack-size beside it")


def print_cabling(output: Output, built: planning.BuiltFabric) -> None:
    """Totals of the placement, and what boxes hold."""
    sheet = built.sheet
    if built.totals is not None and built.in_order is not None and sheet.placement is not None:
        now, before = built.totals, built.in_order
        saved = 1 - float(now.metres / before.metres)
        output.line(
            f"placement   {counted(len(sheet.placement.racks), 'rack')} of {sheet.placement.rack_size}, "
            f"for few {sheet.placement.objective}: {float(now.metres):.0f} m of cable, "
            f"{counted(now.bundles, 'bundle')}; in the order of numbers {float(before.metres):.0f} m, "
            f"{before.bundles} ({saved:.1%} fewer metres)"
        )
        media = Counter(sheet.media)
        output.line(
            f"            {now.in_rack} of {counted(now.cables, 'cable')} stay in a rack, the longest has "
            f"{float(now.longest):.1f} m; {media['copper']} of copper, {media['optical']} optical"
        )
        if sheet.planes is not None:
            through = float(sum(sheet.metres))
            output.line(f"            {through:.0f} m by way of boxes in the middle of the floor")
    if sheet.planes is not None:
        held = Counter(one for one in sheet.planes.plane.tolist() if one >= 0)
        price = (
            "" if sheet.planes.price is None else f", {float(sheet.planes.price):,.0f} for all their ports"
        )
        output.line(
            f"planes      {sheet.planes.n_planes} of {sheet.planes.box.ports} ports hold "
            f"{min(held.values(), default=0)} to {max(held.values(), default=0)} cables each{price}"
        )
