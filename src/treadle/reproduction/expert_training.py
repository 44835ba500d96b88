"""Expert-parallel training of Switch Transformers: figure 3.9, and a timeline as figure A.5 draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from types import MappingProxyType

from treadle.finder.construction import Construction
from treadle.reproduction.expansion_tables import TABLE_A1, all_to_all_rate, allgather_of, bfb
from treadle.reproduction.paper_figure import Rows
from treadle.reproduction.training_costs import GIGABIT, DirectConnectCosts, roofline_step
from treadle.topologies import all_to_all_limit, bandwidth_optimum, moore_steps, parse
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import zoo_model
from treadle.training.step import StepOutcome
from treadle.training.timeline.task import Category
from treadle.training.training_options import CommunicationStreams, TrainingOptions

ALPHA_S = 10e-6
NODE_BYTES_PER_S = 100 * GIGABIT
EFFICIENCY = 0.20
"""Fraction of an A100's bf16 peak: not stated in the paper, fitted to figure 3.9."""
SEQUENCES = 2048
TOKENS: Mapping[str, int] = MappingProxyType({"encoder": 512, "decoder": 512})
PRINTED_RATE = MappingProxyType({256: 4.10e-3, 1024: 8.12e-4})
"""Table A.1's f of the paper's best topologies, for the question what they would make of the figures."""


@dataclass(frozen=True)
class ExpertCase:
    """A half of figure 3.9.

    Parameters
    ----------
    nodes : int
    model : str
    best : str
        The row of table A.1 with the shortest iteration.
    side : int
        Of the torus.
    own : Construction
        The best that `treadle design` knows for this workload.
    """

    nodes: int
    model: str
    best: str
    side: int
    own: Construction


_Costs = partial(DirectConnectCosts, alpha_s=ALPHA_S, bytes_per_s=NODE_BYTES_PER_S)

CASES = (
    ExpertCase(
        256,
        "switch-base-256",
        "L^2(DBJMod(4,2))",
        16,
        bfb("line_graph(metacyclic_cayley(8, 2, 7, 4, 7, 9, 6), 2)"),
    ),
    ExpertCase(
        1024,
        "switch-c",
        "L^3(C(16,{3,4}))",
        32,
        bfb('extension_cayley("8x4x4", "3,2,2/1,3,2/2,3,1", "0,0,0", 8, 440, 751, 981, 63)'),
    ),
)


@cache
def fabric_costs(name: str, construction: Construction) -> DirectConnectCosts:
    """Return the costs of a fabric whose allgather was built and verified and whose flow is certified."""
    topology, found = allgather_of(construction)
    return _Costs(name, found.nodes, found.steps, found.t_b, exchange=all_to_all_rate(topology))


def ring_costs(nodes: int) -> DirectConnectCosts:
    """Return the costs of ShiftedRing: rings in both directions."""
    return _optimal_costs("ShiftedRing", nodes, nodes - 1, f"shifted_ring({nodes})")


def torus_costs(side: int) -> DirectConnectCosts:
    """Return the costs of a square torus with rings along one dimension after another."""
    return _optimal_costs("torus", side * side, 2 * (side - 1), f"torus({side}, {side})")


@cache
def _optimal_costs(name: str, nodes: int, steps: int, fabric: str) -> DirectConnectCosts:
    rate = all_to_all_rate(parse(fabric))
    return _Costs(name, nodes, steps, bandwidth_optimum(nodes), exchange=rate)


def bound_costs(nodes: int) -> DirectConnectCosts:
    """Return the bound for all fabrics with this number of nodes of degree 4."""
    rate, t_b = float(all_to_all_limit(nodes, 4)), bandwidth_optimum(nodes)
    return _Costs("bound", nodes, moore_steps(nodes, 4), t_b, exchange=rate, is_bound=True)


def without_routers(model: TrainingModel) -> TrainingModel:
    """Return the model without the matrices that choose experts."""
    layers = tuple(
        replace(
            layer,
            weights=tuple(weight for weight in layer.weights if weight.name != "router"),
            works=tuple(work for work in layer.works if work.name != "router"),
        )
        for layer in model.layers
    )
    return replace(model, layers=layers)


def expert_step(
    model: TrainingModel, costs: DirectConnectCosts, *, efficiency: float = EFFICIENCY
) -> StepOutcome:
    """Return an iteration on A100s: experts on all nodes, all else replicated, the paper's best buckets."""
    options = TrainingOptions(
        kappa=1, gradient_bytes=2, has_optimizer=False, streams=CommunicationStreams.ONE
    )
    axes = {"ep": costs.nodes}
    return roofline_step(model, axes, costs, options, SEQUENCES, TOKENS, device="a100", efficiency=efficiency)


def exchange_fraction(step: StepOutcome) -> float:
    """Return the all-to-all's share of the iteration, in %."""
    return 100 * float(step.exposed_s[Category.ALLTOALL] / step.iteration_s)


def _parts(place: str, step: StepOutcome) -> Rows:
    yield f"{place}: iteration", 1e3 * float(step.iteration_s), "ms", _bucket(step)
    yield f"{place}: compute", 1e3 * float(step.compute_s), "ms"
    for category, words in ((Category.ALLREDUCE, "exposed allreduce"), (Category.ALLTOALL, "all-to-all")):
        yield f"{place}: {words}", 1e3 * float(step.exposed_s.get(category, 0)), "ms"


def _bucket(step: StepOutcome) -> str:
    return f"buckets of {step.bucket_bytes // 2**20} MiB" if step.bucket_bytes else ""


def figure_3_9(full: bool) -> Rows:
    """Yield both models' iterations on the paper's fabric, ShiftedRing and torus, compared with the bound."""
    for case in CASES:
        yield from _case(case, full=full)


def _case(case: ExpertCase, *, full: bool) -> Rows:
    place = f"{case.nodes} nodes"
    model = without_routers(zoo_model(case.model))
    ours = fabric_costs(case.best, TABLE_A1[case.nodes][case.best])
    others = {"ShiftedRing": ring_costs(case.nodes), "torus": torus_costs(case.side)}
    step = expert_step(model, ours)
    yield f"{place}: parameters", model.parameters / 1e9, "1e9"
    yield from _parts(f"{place}, {case.best}", step)
    yield f"{place}: all-to-all's share, the paper's", exchange_fraction(step), "%"
    for name, costs in others.items():
        other = expert_step(model, costs)
        yield from _parts(f"{place}, {name}", other)
        yield f"{place}: all-to-all, {name} / the paper's", ours.exchange / costs.exchange, "times"
        ratio = float(other.iteration_s / step.iteration_s)
        yield f"{place}: iteration, {name} / the paper's", ratio, "times"
        yield f"{place}: all-to-all's share, {name}", exchange_fraction(other), "%"
    limit = expert_step(model, bound_costs(case.nodes))
    yield f"{place}: iteration, the paper's above the bound", _above(step, limit), "%"
    own = expert_step(model, fabric_costs("own", case.own))
    yield f"{place}: iteration, Treadle's design above the bound", _above(own, limit), "%"
    printed = expert_step(model, replace(ours, exchange=PRINTED_RATE[case.nodes]))
    yield f"{place}: all-to-all's share, the paper's, at the printed rate", exchange_fraction(printed), "%"
    yield from _ratios(f"{place}, with routers", zoo_model(case.model), ours, others)
    if full:
        yield from _frontier(case, model, step)
        kautz = all_to_all_rate(parse(f"generalized_kautz(4, {case.nodes})"))
        for name, costs in others.items():
            yield f"{place}: all-to-all, {name} / Pi(4,{case.nodes})", kautz / costs.exchange, "times"


def _above(step: StepOutcome, limit: StepOutcome) -> float:
    return 100 * float(step.iteration_s / limit.iteration_s - 1)


def _ratios(
    place: str, model: TrainingModel, ours: DirectConnectCosts, others: Mapping[str, DirectConnectCosts]
) -> Rows:
    step = expert_step(model, ours)
    yield f"{place}: all-to-all's share, the paper's", exchange_fraction(step), "%"
    for name, costs in others.items():
        ratio = expert_step(model, costs).iteration_s / step.iteration_s
        yield f"{place}: iteration, {name} / the paper's", float(ratio), "times"


def _frontier(case: ExpertCase, model: TrainingModel, best: StepOutcome) -> Rows:
    """Yield the other rows of table A.1: none is quicker."""
    for name, construction in TABLE_A1[case.nodes].items():
        if name != case.best:
            step = expert_step(model, fabric_costs(name, construction))
            ratio = float(step.iteration_s / best.iteration_s)
            yield f"{case.nodes} nodes: iteration, {name} / {case.best}", ratio, "times"


def figure_a_5(_full: bool) -> Rows:
    """Yield the counts of the paper's timeline, on a simulated one."""
    case = CASES[0]
    costs = fabric_costs(case.best, TABLE_A1[case.nodes][case.best])
    step = expert_step(without_routers(zoo_model(case.model)), costs)
    line = step.timeline
    rows = sorted(
        (start, end, task)
        for start, end, task in zip(line.starts, line.ends, line.tasks, strict=True)
        if end > start
    )
    sends = [row for row in rows if not row[2].computes]
    overlaps = sum(after[0] < before[1] for before, after in pairwise(sends))
    exchanges = [row for row in sends if row[2].category is Category.ALLTOALL]
    blocked = sum(
        start < exchange_end and exchange_start < end
        for exchange_start, exchange_end, _ in exchanges
        for start, end, task in rows
        if task.computes
    )
    yield "computations", sum(row[2].computes for row in rows)
    yield "all-to-alls", len(exchanges)
    yield "allreduces", len(sends) - len(exchanges), "", _bucket(step)
    yield "pairs of communications that overlap", overlaps
    yield "computations during an all-to-all", blocked
