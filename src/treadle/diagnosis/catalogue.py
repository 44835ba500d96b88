"""The catalogue of suspects: what each looks for, and which lines prove it; the surest come first."""

from __future__ import annotations

from treadle.diagnosis.curve_rules import falls, still_rising, wrong_results
from treadle.diagnosis.graph_rules import graph_fell_back, no_p2p, slow_links
from treadle.diagnosis.network_rules import acs, crossed_rails, idle_nics, no_gdr, pcie, ports, tcp
from treadle.diagnosis.setting_rules import restricting
from treadle.diagnosis.suspect import Case, Rule, Suspect

RULES: tuple[Rule, ...] = (
    Rule(
        name="wrong-results",
        looks_for="values that the test found wrong",
        evidence="rows with #wrong above 0, # Out of bounds values",
        is_always=True,
        find=wrong_results,
    ),
    Rule(
        name="idle-nics",
        looks_for="fewer NICs used than the fabric has",
        evidence="NCCL_IB_HCA, NET/IB : Using",
        is_always=True,
        find=idle_nics,
    ),
    Rule(
        name="tcp",
        looks_for="TCP between boxes",
        evidence="via NET/Socket, Using network Socket",
        is_always=True,
        find=tcp,
    ),
    Rule(
        name="falls-with-size",
        looks_for="large sizes much slower than middling ones: congestion, if data passes a network",
        evidence="rows of the table",
        is_always=True,
        find=falls,
    ),
    Rule(
        name="no-gdr",
        looks_for="data for the network that passes through the CPU's memory",
        evidence="via NET/IB without GDRDMA, type .../PHB or .../SYS",
        is_always=False,
        find=no_gdr,
    ),
    Rule(
        name="graph-search",
        looks_for="NCCL's graph search fell back: a missing NVLink edge",
        evidence="2 coll channels, 0 nvls channels",
        is_always=False,
        find=graph_fell_back,
    ),
    Rule(
        name="no-p2p",
        looks_for="GPUs of a box that meet in the CPU's memory",
        evidence="via SHM, P2P is disabled",
        is_always=False,
        find=no_p2p,
    ),
    Rule(
        name="slow-link",
        looks_for="a GPU or a NIC with slower links than its like",
        evidence="lines of the system tree",
        is_always=True,
        find=slow_links,
    ),
    Rule(
        name="pcie",
        looks_for="more NICs than a GPU's PCIe can feed",
        evidence="the system tree, NET/IB : Using, the row of the peak",
        is_always=False,
        find=pcie,
    ),
    Rule(
        name="crossed-rails",
        looks_for="rings that change rails between boxes",
        evidence="the [send] and the [receive] line of a hop, the graph's NET/3 ... NET/2",
        is_always=False,
        find=crossed_rails,
    ),
    Rule(
        name="port",
        looks_for="a port that failed or changed its speed",
        evidence="async event, speed change detected",
        is_always=False,
        find=ports,
    ),
    Rule(
        name="environment",
        looks_for="variables that hold NCCL back",
        evidence="set by environment to, -x NCCL_...=",
        is_always=False,
        find=restricting,
    ),
    Rule(
        name="acs",
        looks_for="PCIe access control between GPU and NIC",
        evidence="ACSCtl: SrcValid+",
        is_always=False,
        find=acs,
    ),
    Rule(
        name="small-sizes",
        looks_for="sizes too small to reach the peak: 15% more with each doubling, up to the last",
        evidence="the last row, and the last of at most half its size",
        is_always=False,
        find=still_rising,
    ),
)


def suspects(case: Case) -> tuple[Suspect, ...]:
    """All that the catalogue finds, the surest first."""
    found: tuple[Suspect, ...] = ()
    for rule in RULES:
        if rule.is_always or case.is_low:
            found += tuple(rule.find(case, found))
    return found
