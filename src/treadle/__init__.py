"""Treadle: provably optimal, verified collective-communication schedules for any network fabric.

Fabrics
    parse                make a fabric from a catalogue expression such as "dgx_a100:2", or from a file
    import_topology      import a fabric from a file of another tool
    from_networkx        make a fabric from a networkx graph
    Topology             compute nodes, switches and links
    TopologyBuilder      builds a topology, node by node and link by link
    cabling              list the cables of a fabric: ports, racks, lengths, planes of optical switches
    check_cabling        compare the installed cables with a list; fewest plugs to move
    grow                 plan the cables for more nodes, connected at every stage
    reconfigure          find the fewest cross-connects that turn one fabric into another
    design               find the best fabrics of a size and degree, or for a workload

Plans
    solve                compute a verified schedule for a collective on a fabric
    solve_sizes          compute one plan with the fastest schedule of every size
    retune               recompute the size ranges of a plan for other costs
    bound                compute the optimum and its certificate, without a schedule
    compare              compare schedulers, and schedules from other tools
    repair               compute a new plan after links or nodes failed
    harden               compute a plan for every single failure in advance
    resilience           compute how random failures reduce the optimum
    verify               check a plan and list every violation
    load_plan            read a plan file
    save_plan            write a plan file
    draw                 draw a fabric or a plan
    report               write an HTML report about a plan
    Collective           operation and participating ranks
    CollectiveKind       allgather, allreduce, all-to-all and others
    Mesh                 axes of ranks, whose groups communicate concurrently

Numbers and files
    price                compute the time of a collective in a group of ranks
    simulate             predict the times of a plan on its fabric
    run                  run a plan on real data, check and time it
    train                simulate a training step on fabrics
    capture              capture a model as a graph of operators, forward and backward
    parallelize          find the best way to shard, recompute and pipeline a model
    diagnose             find why a measured bandwidth is low
    lower                export a plan as a file for a runtime

Extending
    scheduler            register a scheduler
    operator_rule        register the rule of a PyTorch operator in captured graphs
    Format               record of a file format for plans
    register_format      register a format
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
