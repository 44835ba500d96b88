"""Treadle: provably optimal, verified collective-communication schedules for any network fabric."""

from __future__ import annotations

from treadle.lazy import load_lazily

TYPE_CHECKING = False  # as typing's, which takes longer to load than everything else here
if TYPE_CHECKING:
    from treadle._version import __version__ as __version__
    from treadle.planning import Format as Format
    from treadle.planning import bound as bound
    from treadle.planning import compare as compare
    from treadle.planning import diagnose as diagnose
    from treadle.planning import harden as harden
    from treadle.planning import import_topology as import_topology
    from treadle.planning import lower as lower
    from treadle.planning import register_format as register_format
    from treadle.planning import repair as repair
    from treadle.planning import run as run
    from treadle.planning import scheduler as scheduler
    from treadle.planning import solve as solve
    from treadle.planning import verify as verify
    from treadle.schedules.collective import Collective as Collective
    from treadle.schedules.collective import CollectiveKind as CollectiveKind
    from treadle.schedules.plan_files.archive import load_plan as load_plan
    from treadle.schedules.plan_files.archive import save_plan as save_plan
    from treadle.topologies import Topology as Topology
    from treadle.topologies import TopologyBuilder as TopologyBuilder
    from treadle.topologies import from_networkx as from_networkx
    from treadle.topologies import parse as parse
else:
    __all__, __getattr__, __dir__ = load_lazily(
        __name__,
        {
            "treadle._version": ("__version__",),
            "treadle.planning": (
                "Format",
                "bound",
                "compare",
                "diagnose",
                "harden",
                "import_topology",
                "lower",
                "register_format",
                "repair",
                "run",
                "scheduler",
                "solve",
                "verify",
            ),
            "treadle.schedules.collective": ("Collective", "CollectiveKind"),
            "treadle.schedules.plan_files.archive": ("load_plan", "save_plan"),
            "treadle.topologies": ("Topology", "TopologyBuilder", "from_networkx", "parse"),
        },
    )
