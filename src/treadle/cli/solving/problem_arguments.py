"""Arguments that say what is to be planned; the same for solve, bound and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli.fabric_arguments import FormatOption as FormatOption
from treadle.cli.fabric_arguments import topology_text
from treadle.cli.quantities import parse_integers
from treadle.planning.problem import ProblemOptions
from treadle.topologies.topology import Topology

TopologyArgument = Annotated[
    Topology,
    typer.Argument(
        metavar="TOPOLOGY",
        help="A catalogue expression such as dgx_a100:2, or anyone's file.",
        parser=topology_text,
    ),
]
"""`cli.fabric_arguments.FabricCommand` reads it."""
CollectiveArgument = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTIVE",
        help="allgather, reduce-scatter, allreduce, broadcast, reduce or alltoall.",
    ),
]
LeftOutCollectiveArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="COLLECTIVE",
        help="allreduce, allgather, reduce-scatter, alltoall, broadcast/reduce",
    ),
]
"""Of commands that take --jobs in its place."""
RanksOption = Annotated[
    str | None,
    typer.Option(help="Compute nodes in rank order, e.g. 0-7,16-23 or box0.*.", metavar="RANKS"),
]
ForwardOption = Annotated[
    bool, typer.Option("--forward", help="Nodes outside --ranks, or of other groups, forward.")
]
ForwardFromNowOption = Annotated[
    bool, typer.Option("--forward", help="Of several groups: ranks of other groups forward from now on.")
]
"""Of commands that plan anew."""
MeshOption = Annotated[
    str | None,
    typer.Option(help="Lays out the ranks: dp=16,tp=8, or 16,8.", metavar="MESH"),
]
AxesOption = Annotated[
    str | None,
    typer.Option(help="All groups over these at once: dp, or 0,1.", metavar="AXES"),
]
RootOption = Annotated[
    str | None, typer.Option(help="Root of broadcast and reduce: a rank or a node's name.", metavar="RANK")
]
WeightsOption = Annotated[
    str | None, typer.Option(help="Relative shard size of each rank, as 2,1,1,1.", metavar="W,W,...")
]
TrimOption = Annotated[
    bool, typer.Option("--trim", help="Leave surplus bandwidth unused where nodes are not Eulerian.")
]
DemandsOption = Annotated[
    Path | None,
    typer.Option(help="Of an all-to-all: amounts as a CSV or JSON matrix.", metavar="FILE"),
]


def problem_options(
    ranks: str | None,
    forward: bool,
    root: str | None,
    weights: str | None,
    file_format: str | None,
    demands: Path | None = None,
    mesh: str | None = None,
    axes: str | None = None,
) -> ProblemOptions:
    """What was typed, as `treadle.planning.pose` takes it."""
    return ProblemOptions(
        ranks=ranks,
        forward=forward,
        root=root,
        weights=None if weights is None else parse_integers(weights, "--weights"),
        file_format=file_format,
        demands=demands,
        mesh=mesh,
        axes=axes,
    )
