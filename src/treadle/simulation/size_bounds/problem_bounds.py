"""The least times of a collective on a fabric, size by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treadle.inputs.problem import Problem
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.collective import Collective
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.cost_presets import default_cost_model
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.size_bounds.bound_at_size import BoundsBySize, protocols_of
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import (
    CrossingCertificate,
    DirectCertificate,
    GatheredCertificate,
    GrowthCertificate,
    PairCertificate,
    ReachCertificate,
    RelayedCertificate,
    SizeBound,
)
from treadle.spelling import counted
from treadle.topologies.topology import Topology

PROOF_KINDS = ("crossing", "distance", "reach", "growth", "direct", "gathered", "relayed")
"""Kinds of witnesses, in the order in which they are told."""


def size_bounds(
    problem: Problem,
    witness: Certificate | None,
    sizes: Sequence[int],
    *,
    options: SimulationOptions | None = None,
    cost_model: CostModel | None = None,
) -> tuple[SizeBound, ...]:
    """Times before which no schedule ends, under what messages cost in a simulation.

    Parameters
    ----------
    problem : Problem
    witness : Witness, optional
        Of the most that any schedule reaches (`find_bound`); None if nothing is known of it.
    sizes : sequence of int
        Bytes of the larger per-rank buffer, 1 or more.
    options : SimulationOptions, optional
        Of the simulation, with one alpha for all messages unless there is a cost model.
    cost_model : CostModel, optional
        In place of the options' alpha; without options by default the fabric's.

    Returns
    -------
    tuple of SizeBound
        For each size, in order; each checked by code that shares nothing with what found it.

    Raises
    ------
    ScheduleError
        If a bound does not pass the check.
    """
    if options is None:
        options, cost_model = SimulationOptions(), cost_model or default_cost_model(problem.topology)
    topology, collective = problem.topology, problem.collective
    found = BoundsBySize(topology, collective, witness, options, cost_model).at(sizes)
    check_size_bounds(topology, collective, protocols_of(options, cost_model), found)
    return found


def size_bound_values(bound: SizeBound | None) -> dict[str, object]:
    """What JSON says of the bound of a size: seconds, and which kind of witness proves them."""
    return {} if bound is None else {"bound_s": float(bound.time), "bound_by": bound.reason}


def size_reasons(
    topology: Topology, collective: Collective, bounds: Sequence[SizeBound]
) -> Iterator[tuple[str, str]]:
    """Each kind of proof, and what the last one of it says."""
    names = [topology.node_names[node] for node in collective.ranks]
    reasons: dict[str, str] = {}
    for bound in bounds:
        for proof in bound.proofs:
            witness = proof.witness
            if isinstance(witness, PairCertificate):
                told = f"{names[witness.target]} needs data of {names[witness.source]}"
            elif isinstance(witness, ReachCertificate):
                told = f"{witness.count} ranks have to know of {names[witness.source]}'s data"
            elif isinstance(witness, GrowthCertificate):
                told = "messages add no more than their senders know, and their bytes hold"
            elif isinstance(witness, DirectCertificate):
                told = f"{names[witness.source]} tells ranks {witness.least_ns / 1000:g} us away one by one"
            elif isinstance(witness, GatheredCertificate):
                told = f"{_set_words(topology, witness.nodes)} once, gathered or handed on, or twice"
            elif isinstance(witness, RelayedCertificate):
                told = "one message or two bring each contribution, and take their bytes of links"
            else:
                told = _crossing_words(topology, witness.witness)
            reasons[witness.kind] = told
    return ((kind, reasons[kind]) for kind in PROOF_KINDS if kind in reasons)


def _crossing_words(topology: Topology, witness: Certificate) -> str:
    if isinstance(witness, BottleneckCut):
        return _set_words(topology, witness.nodes)
    return "data must cross links, each at its price"


def _set_words(topology: Topology, nodes: Sequence[int]) -> str:
    inside = set(nodes)
    smaller = min(inside, set(range(topology.n_nodes)) - inside, key=len)
    if len(smaller) == 1:
        return f"data must leave or enter {topology.node_names[min(smaller)]}"
    return f"data must leave or enter a set of {counted(len(smaller), 'node')}"


def size_bounds_summary(bounds: Sequence[SizeBound], model: CostModel | None) -> dict[str, object]:
    """What JSON says of bounds of sizes: all proofs of each, and each witness once."""
    if not bounds:
        return {}
    witnesses: dict[int, tuple[int, dict[str, object]]] = {}
    rows = []
    for bound in bounds:
        proofs = []
        for proof in bound.proofs:
            shared = (
                proof.witness.witness if isinstance(proof.witness, CrossingCertificate) else proof.witness
            )
            place = witnesses.setdefault(id(shared), (len(witnesses), proof.witness.to_json()))[0]
            proofs.append({"kind": proof.witness.kind, "time_s": float(proof.time), "witness": place})
        named = {"protocol": bound.protocol} if bound.protocol else {}
        rows.append({"size_bytes": bound.size_bytes, **size_bound_values(bound), **named, "proofs": proofs})
    told = {} if model is None else {"cost_model": model.name, "cost_model_source": model.source}
    return {**told, "at_sizes": rows, "size_witnesses": [value for _, value in witnesses.values()]}
