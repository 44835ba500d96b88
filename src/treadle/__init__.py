"""Treadle: provably optimal, verified collective-communication schedules for any network fabric.

Fabrics
    parse                a fabric from a catalogue expression such as "dgx_a100:2", or from a file
    import_topology      a fabric from a file of others, and what was recognised in it
    from_networkx        a fabric from a graph of networkx
    Topology             the value: compute nodes, switches, links
    TopologyBuilder      makes one, node by node and link by link
    cabling              the cables of a fabric: ports, racks, lengths, planes of optical switches
    check_cabling        what was plugged against a cabling list, and the fewest plugs to move
    grow                 the cables by which a fabric grows, connected at every stage
    reconfigure          the fewest cross-connects that make one fabric out of another
    design               the best fabrics of a size and degree, and the best for a workload

Plans
    solve                a verified schedule for a collective on a fabric
    solve_sizes          one plan with the fastest schedule of every size
    retune               fits the size ranges of such a plan to other costs
    bound                the exact optimum alone, with its witness
    compare              schedulers, and schedules of others, side by side
    repair               a new plan after links or nodes failed
    harden               a plan for each single failure, beforehand
    resilience           what random failures leave of a fabric's optimum
    verify               every violation of a plan, or none
    load_plan            a plan from its file
    save_plan            writes a plan's file
    draw                 a picture of a fabric or a plan
    report               a page about a plan, to look at in a browser
    Collective           the value: what is to be done, among which ranks
    CollectiveKind       allgather, allreduce, alltoall and the others
    Mesh                 axes of ranks, whose groups communicate at once

Numbers and files
    price                seconds of a collective in a group of ranks
    simulate             predicted times of a plan on its fabric
    run                  moves real data by a plan, checks and times it
    train                a step of training on fabrics, simulated
    capture              a model as a graph of operators, forward and backward
    parallelize          the best way to shard, recompute and pipeline a model
    diagnose             why a measured bandwidth is low
    lower                a plan as text for a runtime

Extending
    scheduler            registers a scheduler
    operator_rule        registers what an operator of PyTorch is in a captured graph
    Format               the record of a format that plans are written as
    register_format      registers one
"""

from __future__ import annotations

import copyreg
from types import MappingProxyType

from treadle.lazy import load_lazily, read_only

# Values hold read-only mappings, which Python itself can neither pickle nor copy.
copyreg.pickle(MappingProxyType, lambda mapping: (read_only, (dict(mapping),)))

TYPE_CHECKING = False  # as typing's, which takes longer to load than everything else here
if TYPE_CHECKING:
    from treadle._version import __version__ as __version__
    from treadle.planning import Format as Format
    from treadle.planning import bound as bound
    from treadle.planning import cabling as cabling
    from treadle.planning import capture as capture
    from treadle.planning import check_cabling as check_cabling
    from treadle.planning import compare as compare
    from treadle.planning import design as design
    from treadle.planning import diagnose as diagnose
    from treadle.planning import draw as draw
    from treadle.planning import grow as grow
    from treadle.planning import harden as harden
    from treadle.planning import import_topology as import_topology
    from treadle.planning import lower as lower
    from treadle.planning import operator_rule as operator_rule
    from treadle.planning import parallelize as parallelize
    from treadle.planning import price as price
    from treadle.planning import reconfigure as reconfigure
    from treadle.planning import register_format as register_format
    from treadle.planning import repair as repair
    from treadle.planning import report as report
    from treadle.planning import resilience as resilience
    from treadle.planning import retune as retune
    from treadle.planning import run as run
    from treadle.planning import scheduler as scheduler
    from treadle.planning import simulate as simulate
    from treadle.planning import solve as solve
    from treadle.planning import solve_sizes as solve_sizes
    from treadle.planning import train as train
    from treadle.planning import verify as verify
    from treadle.schedules.collective import Collective as Collective
    from treadle.schedules.collective import CollectiveKind as CollectiveKind
    from treadle.schedules.mesh import Mesh as Mesh
    from treadle.schedules.plan_files.archive import load_plan as load_plan
    from treadle.schedules.plan_files.archive import save_plan as save_plan
    from treadle.topologies import Topology as Topology
    from treadle.topologies import TopologyBuilder as TopologyBuilder
    from treadle.topologies import from_networkx as from_networkx
    from treadle.topologies import parse as parse
else:
    __all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
