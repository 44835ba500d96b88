"""Schedules of random fabrics with extreme numbers, and what comes of them."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from reference.alltoall_lp import lp_rate, pairs_of
from reference.optimum import algbw_by_all_cuts
from reference.program_check import check_program
from samples.strategies import extreme_topologies, sparse_demands
from samples.wide_fabrics import wide_fabric
from treadle import planning
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.inputs.problem import make_problem
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.synthesis.alltoall import RateResult
from treadle.synthesis.scheduler import Comparing, Scheduler
from treadle.topologies.files import dump_topology, topology_from_json
from treadle.topologies.topology import Topology

from ..finding import Case, UnservedError, require
from .target import Target

SPANNING_KINDS = tuple(kind.value for kind in CollectiveKind if kind is not CollectiveKind.ALLTOALL)
ALLTOALL_NAMES = ("pipelined", "shortest-paths", "tsmcf", "routes")
TOLERANCE = 1e-6
"""Relative error of the linear programs that answers are held against."""

MOST_CHUNKS = 3000
"""Of a program that is checked the slow way."""

SPREAD_OF_REFERENCE = 1e5
"""Widest link over narrowest, and largest demand, up to which the slow linear program is right to that."""


def json_of(topology: Topology) -> Any:
    """A fabric as a JSON value."""
    return json.loads(dump_topology(topology))


@st.composite
def _problems(draw: Any, kinds: tuple[str, ...]) -> dict[str, Any]:
    """A fabric, a collective on all or some of its ranks, with or without roots and weights."""
    topology = draw(extreme_topologies())
    n, kind = len(topology.compute_nodes), draw(st.sampled_from(kinds))
    options: dict[str, Any] = {}
    if n > 2 and draw(st.integers(0, 3)) == 0:
        options["ranks"] = sorted(draw(st.permutations(range(n)))[: draw(st.integers(2, n - 1))])
        options["forward"] = draw(st.booleans())
    n_ranks = len(options.get("ranks", range(n)))
    if CollectiveKind(kind).is_rooted:
        options["root"] = draw(st.integers(0, n_ranks - 1))
    if kind in ("allgather", "reduce-scatter") and draw(st.integers(0, 2)) == 0:
        weight = st.one_of(st.integers(0, 4), st.sampled_from([10**3, 10**6, 2**20]))
        weights = st.lists(weight, min_size=n_ranks, max_size=n_ranks).filter(any)
        options["weights"] = draw(weights)
    return {"topology": json_of(topology), "collective": kind, "options": options}


def _posed(case: Case) -> planning.Problem:
    """The fabric and the collective of a case."""
    options = dict(case["options"])
    if "demands" in options:
        options["demands"] = Demands(np.array(options["demands"]))
    return make_problem(topology_from_json(case["topology"]), case["collective"], **options)


def _is_balanced(topology: Topology) -> bool:
    return bool((topology.egress_bytes_per_s() == topology.ingress_bytes_per_s()).all())


def check_plan(plan: Plan) -> None:
    """A plan is the same when read again, verifies, and does not claim more than its bound."""
    again = parse_plan(dump_plan(plan), source="plan")
    require(again == plan, "a plan changes when it is written and read")
    result = planning.verify(again)
    require(result.is_ok, "the verifier rejects a plan", result.reports)
    bound = result.report.bound
    require(bound is None or plan.algbw <= bound, "a rate above its bound", (plan.algbw, bound))


def check_data(plan: Plan, size: int) -> None:
    """The plan's program, if there is one, keeps the rules and moves the right data."""
    try:
        program = planning.program_of(plan, size)
    except InfeasibleError:  # a forwarder's part of steps, too many chunks
        return
    if program.n_chunks <= MOST_CHUNKS:
        faults = check_program(program)
        require(not faults, "a program breaks the rules", faults[:3])
    if program.n_chunks <= 100 * MOST_CHUNKS:
        wrong = planning.run(plan, [size], iterations=1, budget_s=0.0).wrong
        require(not wrong, "wrong data", f"{wrong} elements of {size} bytes")


@st.composite
def _spanning_cases(draw: Any) -> Case:
    case = draw(_problems(SPANNING_KINDS))
    how: dict[str, Any] = {}
    match draw(st.integers(0, 7)):
        case 0:
            how["trees"] = draw(st.sampled_from([1, 2, 3, 5, 8, 64]))
        case 1:
            how["max_trees"] = draw(st.sampled_from([1, 2, 7, 16, 100]))
        case 2:
            how["exact"] = True
        case 3:
            how["multicast"] = True
        case 4:
            how["trim"] = True
        case 5:
            names = [one.name for one in planning.schedulers(plug_ins=False) if _spans(one)]
            how["algorithm"] = draw(st.sampled_from(names))
        case 6:
            how["form"] = draw(st.sampled_from(["explicit", "factored"]))
    return {**case, "how": how}


def _spans(scheduler: Scheduler) -> bool:
    """Whether it is for trees or steps, and quick."""
    return "alltoall" not in scheduler.collectives and scheduler.comparing is not Comparing.NAMED


def _check_spanning(case: Case) -> None:
    problem, how = _posed(case), case["how"]
    topology, collective = problem.topology, problem.collective
    try:
        result = planning.solve(topology, collective, **how)
    except (InfeasibleError, ScheduleError) as error:
        # the optimum of large weights and bandwidths without a common divisor takes more than 64 bits
        is_beyond = bool(how.get("exact")) and "needs capacities of 2**61 units or more" in str(error)
        if isinstance(error, planning.RejectedError) or not (is_beyond or _may_refuse(problem, how)):
            raise
        raise UnservedError from None
    bound = planning.bound(topology, collective).algbw
    require(result.optimal_algbw in (None, bound), "two bounds", (result.optimal_algbw, bound))
    if collective.kind is not CollectiveKind.ALLREDUCE:
        exact = algbw_by_all_cuts(topology, collective)
        require(bound == exact, "a bound that is not the least cut", (bound, exact))
    require(result.algbw <= bound, "a rate above the bound", (result.algbw, bound))
    check_plan(result.plan)


def _may_refuse(problem: planning.Problem, how: dict[str, Any]) -> bool:
    """Whether there is a reason not to serve a problem: it is cut in two, or unbalanced, or much is asked."""
    if set(how) - {"exact", "max_trees"}:
        return True
    if not _is_balanced(problem.topology):
        return True
    return not _is_connected(problem)


def _is_connected(problem: planning.Problem) -> bool:
    """Whether every rank reaches every other."""
    kinds = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    try:
        return all(planning.bound(problem.topology, kind).algbw > 0 for kind in kinds)
    except InfeasibleError:
        return False


@st.composite
def _alltoall_cases(draw: Any) -> Case:
    case = draw(_problems(("alltoall",)))
    how: dict[str, Any] = {}
    n = len(
        case["options"].get(
            "ranks", [node for node in case["topology"]["nodes"] if node["kind"] == "compute"]
        )
    )
    if draw(st.integers(0, 3)):
        case["options"]["demands"] = draw(sparse_demands(n))
    if draw(st.integers(0, 2)) == 0:
        how["algorithm"] = draw(st.sampled_from(ALLTOALL_NAMES))
        if how["algorithm"] == "routes" and draw(st.booleans()):
            how[draw(st.sampled_from(["max_layers", "max_routes", "max_flows"]))] = draw(st.integers(1, 3))
    return {**case, "how": how}


def _check_alltoall(case: Case) -> None:
    problem, how = _posed(case), case["how"]
    topology, collective = problem.topology, problem.collective
    try:
        result = planning.solve(topology, collective, **how)
    except (InfeasibleError, ScheduleError) as error:
        may = _may_refuse_alltoall(problem, how)
        if isinstance(error, planning.RejectedError) or not may:
            raise
        raise UnservedError from None
    found = planning.bound(topology, collective).rate
    assert found is not None
    _check_rate(topology, collective, found)
    most = collective.pair_demands.buffer_units * found.upper
    require(result.algbw <= most, "a rate above the bound", (result.algbw, most))
    check_plan(result.plan)
    check_data(result.plan, 0)
    check_data(result.plan, 1000)


def _may_refuse_alltoall(problem: planning.Problem, how: dict[str, Any]) -> bool:
    """Whether there is a reason: few routes or layers are asked for, or steps through switches, or no way."""
    if set(how) - {"algorithm"}:
        return True
    if "algorithm" in how and how["algorithm"] != "routes" and len(problem.topology.switches):
        return True
    return not _is_connected(problem)


def _spread(topology: Topology) -> float:
    """The widest link over the narrowest."""
    return float(topology.bandwidths.max() / topology.bandwidths.min()) if topology.n_links else 1.0


def _check_rate(topology: Topology, collective: Collective, found: RateResult) -> None:
    """Both sides against the flows of single pairs, exactly, and against a linear program."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    for tail, head, bandwidth in zip(
        topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True
    ):
        known = graph.get_edge_data(tail, head, {"capacity": 0})
        graph.add_edge(tail, head, capacity=known["capacity"] + bandwidth)
    alone = [
        Fraction(nx.maximum_flow_value(graph, one, other), demand)
        for one, targets in pairs_of(collective).items()
        for other, demand in targets.items()
    ]
    low, high = found.rate * (1 - TOLERANCE), float(found.upper) * (1 + TOLERANCE)
    require(low <= min(alone), "a rate above that of a pair alone", (low, min(alone)))
    require(low <= high, "two bounds that cross", (low, high))
    if len(alone) == 1:
        require(high >= alone[0], "a bound below the only flow", (high, alone[0]))
    elif max(_spread(topology), int(collective.pair_demands.matrix.max())) < SPREAD_OF_REFERENCE:
        rate = lp_rate(topology, collective)
        require(low <= rate <= high, "a rate outside its two bounds", (low, rate, high))


LARGE = 2**40
"""Bytes of a size at which it does not matter that parts of it are whole bytes."""

TOLERANCE_OF_TIME = Fraction(1, 1000)


@st.composite
def _round_trip_cases(draw: Any) -> Case:
    case = draw(_spanning_cases() | _alltoall_cases())
    case["size"] = draw(st.sampled_from([0, 1, 4, 100, 1023, 4096, 100_000]))
    case["to"] = draw(st.sampled_from([str(target) for target in planning.TargetFormat]))
    case["in_place"] = draw(st.booleans())
    case["channels"] = draw(st.integers(1, 3))
    case["alpha_ns"] = draw(st.sampled_from([0, 1, 5000, 10**12]))
    case["simulated"] = draw(st.sampled_from([1, 1000, 2**20, LARGE]))
    return case


def _check_round_trip(case: Case) -> None:
    """A plan moves the right data, and every text of it passes its judge; simulation keeps to the bound."""
    problem = _posed(case)
    try:
        plan = planning.solve(problem.topology, problem.collective, **case["how"]).plan
    except TreadleError:
        raise UnservedError from None  # for the other targets
    check_data(plan, case["size"])
    options = planning.SimulationOptions(alpha_ns=case["alpha_ns"])
    try:
        (row,) = planning.simulate(plan, [case["simulated"]], options=options).rows
    except InfeasibleError:  # without a program, as above
        return
    if case["simulated"] >= LARGE and plan.optimal_algbw is not None:
        fastest = Fraction(case["simulated"]) / plan.optimal_algbw
        require(row.time >= fastest * (1 - TOLERANCE_OF_TIME), "faster than the bound", (row.time, fastest))
    target = planning.find_format(case["to"])
    asked = {"in_place": case["in_place"], "channels": case["channels"], "size_bytes": 2**20}
    heeded = {name: value for name, value in asked.items() if name in target.options}
    if plan.collective.root is not None and "accept_any_root" in target.options:
        heeded["accept_any_root"] = True
    try:
        made = planning.lower(plan, to=target.name, **heeded)
    except (InfeasibleError, ScheduleError):
        return  # a format need not express everything
    require(not made.faults, "a text that its own judge rejects", made.faults[:3])


@st.composite
def _wide_cases(draw: Any) -> Case:
    fabric = wide_fabric(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from([str(kind) for kind in CollectiveKind]))
    n_ranks = len(fabric.compute_nodes)
    options = {"root": draw(st.integers(0, n_ranks - 1))} if CollectiveKind(kind).is_rooted else {}
    return {"topology": json_of(fabric), "collective": kind, "options": options}


def _check_wide(case: Case) -> None:
    """A fabric of 5 to 15 nodes with bandwidths far apart is solved, or refused with the reason."""
    problem = _posed(case)
    try:
        result = planning.solve(problem.topology, problem.collective)
    except (InfeasibleError, ScheduleError) as error:
        if isinstance(error, planning.RejectedError) or _is_connected(problem):
            raise
        raise UnservedError from None
    require(result.report.is_ok, "the verifier rejects a plan", result.report)
    check_plan(result.plan)


SPANNING = Target("spanning", _spanning_cases(), _check_spanning, 60)
ALLTOALLS = Target("alltoall", _alltoall_cases(), _check_alltoall, 40)
ROUND_TRIPS = Target("round-trip", _round_trip_cases(), _check_round_trip, 30)
WIDE = Target("wide", _wide_cases(), _check_wide, 40)
