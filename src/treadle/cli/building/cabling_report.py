"""Options and words about cables, shared by ``design`` and ``cabling``."""

from __future__ import annotations

from collections import Counter

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output
from treadle.cli.quantities import counted
from treadle.context import Progress
from treadle.errors import FormatError
from treadle.options.building import Racks
from treadle.options.designing import Design
from treadle.options.rows import refuse
from treadle.topologies.topology import Topology


def check_changes(o: Design) -> None:
    """FormatError for changes of two kinds, or a file for none."""
    if o.grow is not None and o.reconfigure is not None:
        raise FormatError("--grow and --reconfigure exclude each other; one after the other is two plans")
    if o.changes is not None and o.grow is None and o.reconfigure is None:
        raise FormatError("--changes is the file of --grow or --reconfigure; expected one of them beside it")


def print_changes(
    output: Output, fabric: Topology, o: Design, progress: Progress | None
) -> dict[str, object]:
    """Plan a growth or a reconfiguration, tell and write it; what JSON says."""
    nodes, other, path = o.grow, o.reconfigure, o.changes
    values: dict[str, object] = {}
    text = ""
    if nodes is not None:
        plan = planning.grow(fabric, nodes, seed=o.seed, progress=progress)
        new = nodes - fabric.n_nodes
        output.line(
            f"growth      to {nodes} nodes: {plan.steps} steps, T_B {float(plan.t_b):.4f}; "
            f"{plan.n_cut} cables pulled ({plan.n_cut / new:g} a new node), "
            f"{len(plan.moves) - plan.n_cut} added"
        )
        output.line(
            f"            {counted(plan.moves[-1].stage, 'stage')}, "
            + ("connected after every move" if plan.is_connected else "NOT connected after every move")
        )
        values["growth"] = planning.growth_summary(plan)
        text = plan.text()
    if other is not None:
        rewired = planning.reconfigure(fabric, other, seed=o.seed, progress=progress)
        output.line(
            f"rewiring    to {rewired.other.name}: {counted(rewired.n_changed, 'cross-connect')} to make, "
            f"{rewired.n_in_order} with nodes in the order of their numbers"
        )
        values["rewiring"] = planning.rewiring_summary(rewired)
        text = rewired.text()
    if path is not None:
        write_bytes(path, text.encode())
        output.line(f"changes     {path}")
        values["changes_file"] = str(path)
    return values


def check_racks(o: Racks) -> None:
    """FormatError for an option that is about racks where there are none."""
    if o.rack_size is None:
        refuse(o, ("floor", "objective"), "valid only with racks; give --rack-size too")


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
