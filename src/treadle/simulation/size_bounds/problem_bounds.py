"""Lower bounds on the time of a collective on a fabric, size by size.

Each kind of certificate proves a time for each protocol. A size's bound is the latest of these times, for the
protocol that allows the earliest end. docs/proofs/size-bounds.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from treadle.inputs.problem import Problem
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.collective import Collective
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.costs.cost_presets import default_cost_model
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.size_bounds.crossing import crossing_time, cut_candidates, gathered_cuts, windows
from treadle.simulation.size_bounds.direct_messages import direct_pairs, relayed_messages
from treadle.simulation.size_bounds.distance import farthest_pair
from treadle.simulation.size_bounds.message_terms import message_terms
from treadle.simulation.size_bounds.reach import (
    growth_certificate,
    growth_time_ns,
    reach_certificate,
    reach_time_ns,
)
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
    SizeCertificate,
    SizeProof,
)
from treadle.spelling import counted
from treadle.topologies.topology import Topology

PROOF_KINDS = ("crossing", "distance", "reach", "growth", "direct", "gathered", "relayed")
"""Kinds of certificates, in the order of reports."""

_Times = Callable[[int], list[tuple[Fraction, SizeCertificate]]]
"""Times after the launch, seconds, that the certificates of a kind prove for a size in bytes."""


def size_bounds(
    problem: Problem,
    certificate: Certificate | None,
    sizes: Sequence[int],
    *,
    options: SimulationOptions | None = None,
    cost_model: CostModel | None = None,
) -> tuple[SizeBound, ...]:
    """Return times before which no schedule ends, checked by independent code.

    Uses the certificate of the upper bound on algbw (`find_bound`), if any. A cost model replaces the
    options' alpha; without both, the fabric's default model applies.
    """
    if options is None:
        options, cost_model = SimulationOptions(), cost_model or default_cost_model(problem.topology)
    topology, collective = problem.topology, problem.collective
    found = find_size_bounds(topology, collective, certificate, sizes, options, cost_model)
    check_size_bounds(topology, collective, protocols_of(options, cost_model), found)
    return found


def protocols_of(options: SimulationOptions, model: CostModel | None) -> tuple[Protocol, ...]:
    """Return the possible costs of messages: the protocols of a model, or one alpha for all classes."""
    if model is not None:
        return model.protocols
    if options.costs is not None:
        return (options.costs,)
    every = ClassCost(alpha_ns=options.alpha_ns)
    return (Protocol("alpha", every, every, every),)


def find_size_bounds(
    topology: Topology,
    collective: Collective,
    certificate: Certificate | None,
    sizes: Sequence[int],
    options: SimulationOptions,
    model: CostModel | None = None,
) -> tuple[SizeBound, ...]:
    """Return the bound of each size, unchecked; see `size_bounds`."""
    is_named = model is not None or options.costs is not None
    # ranks that send in turn are counted only if messages share links one by one, not as fluids
    in_turn = options.sharing is not Sharing.FAIR
    by_protocol = [
        (
            protocol.name if is_named else "",
            _bounds(topology, collective, certificate, protocol, in_turn=in_turn),
        )
        for protocol in protocols_of(options, model)
    ]
    bounds = ([SizeBound(size, name, proofs(size)) for name, proofs in by_protocol] for size in sizes)
    return tuple(min(found, key=lambda bound: bound.time) for found in bounds)


def _bounds(
    topology: Topology,
    collective: Collective,
    certificate: Certificate | None,
    protocol: Protocol,
    *,
    in_turn: bool,
) -> Callable[[int], tuple[SizeProof, ...]]:
    """Return the proofs under a protocol as a function of the size, the latest first."""
    terms, launch = message_terms(topology, protocol), Fraction(protocol.launch_ns, 10**9)
    fixed: list[SizeProof] = []
    kinds: list[_Times] = []
    if (pair := farthest_pair(terms, collective)) is not None:
        fixed.append(SizeProof(launch + Fraction(pair[1], 10**9), pair[0]))
    crossings = [] if certificate is None else [certificate]
    crossings += cut_candidates(terms, collective)
    known = [(one, windows(terms, collective, one)) for one in crossings]
    kinds.append(
        lambda size: [(crossing_time(at, size), CrossingCertificate(one)) for one, at in known if at]
    )
    growth = None
    if in_turn:
        if (reach := reach_certificate(terms, collective)) is not None:
            fixed.append(SizeProof(launch + Fraction(reach_time_ns(reach), 10**9), reach))
        growth = growth_certificate(terms, collective)
        direct = list(direct_pairs(terms, collective))
        kinds.append(lambda size: [(pairs.time_ns(size) / 10**9, pairs.certificate) for pairs in direct])
        if (relayed := relayed_messages(terms, collective)) is not None:
            kinds.append(lambda size: [relayed.proof(size)])
    gathered = list(gathered_cuts(terms, collective))
    # links carry all data twice, or once when it has been gathered
    kinds.append(
        lambda size: [(crossing_time(at, 2 * part * size), one) for one, part, at in gathered],
    )

    def proofs(size: int) -> tuple[SizeProof, ...]:
        found = list(fixed)
        for times in filter(None, (kind(size) for kind in kinds)):
            time, latest = max(times, key=lambda proof: proof[0])
            found.append(SizeProof(launch + time, latest))
        if growth is not None:
            above = max((proof.time for proof in found), default=launch) - launch
            grown = growth_time_ns(growth, collective, size, float(above) * 1e9)
            if grown:
                found.append(SizeProof(launch + Fraction(grown, 10**9), growth))
        return tuple(sorted(found, key=lambda proof: -proof.time))

    return proofs


def size_bound_values(bound: SizeBound | None) -> dict[str, object]:
    """Return the JSON of a size's bound: seconds, and the kind of certificate that proves them."""
    return {} if bound is None else {"bound_s": float(bound.time), "bound_by": bound.reason}


def size_reasons(
    topology: Topology, collective: Collective, bounds: Sequence[SizeBound]
) -> Iterator[tuple[str, str]]:
    """Yield each kind of proof, and the last proof of it in words."""
    names = [topology.node_names[node] for node in collective.ranks]
    last = {proof.certificate.kind: proof.certificate for bound in bounds for proof in bound.proofs}
    for kind in PROOF_KINDS:
        certificate = last.get(kind)
        if isinstance(certificate, CrossingCertificate):
            if isinstance(certificate.certificate, BottleneckCut):
                yield kind, _set_words(topology, certificate.certificate.nodes)
            else:
                yield kind, "data must cross links, each at its price"
        elif isinstance(certificate, PairCertificate):
            yield kind, f"{names[certificate.target]} needs data of {names[certificate.source]}"
        elif isinstance(certificate, ReachCertificate):
            yield kind, f"{certificate.count} ranks must have {names[certificate.source]}'s data"
        elif isinstance(certificate, GrowthCertificate):
            yield kind, "a message adds at most what its sender has, and what its bytes hold"
        elif isinstance(certificate, DirectCertificate):
            name, least_us = names[certificate.source], certificate.least_ns / 1000
            yield kind, f"{name} sends to ranks {least_us:g} us away one by one"
        elif isinstance(certificate, GatheredCertificate):
            yield kind, f"{_set_words(topology, certificate.nodes)}: gathered and passed on once, or twice"
        elif isinstance(certificate, RelayedCertificate):
            yield kind, "one message or two bring each contribution, and their bytes hold links"


def _set_words(topology: Topology, nodes: Sequence[int]) -> str:
    inside = set(nodes)
    smaller = min(inside, set(range(topology.n_nodes)) - inside, key=len)
    if len(smaller) == 1:
        return f"data must leave or enter {topology.node_names[min(smaller)]}"
    return f"data must leave or enter a set of {counted(len(smaller), 'node')}"


def size_bounds_summary(bounds: Sequence[SizeBound], model: CostModel | None) -> dict[str, object]:
    """Return the JSON of bounds at sizes: all proofs of each, and each certificate once."""
    if not bounds:
        return {}
    certificates: dict[int, tuple[int, dict[str, object]]] = {}
    rows = []
    for bound in bounds:
        proofs = []
        for proof in bound.proofs:
            shared = (
                proof.certificate.certificate
                if isinstance(proof.certificate, CrossingCertificate)
                else proof.certificate
            )
            place = certificates.setdefault(id(shared), (len(certificates), proof.certificate.to_json()))[0]
            proofs.append({"kind": proof.certificate.kind, "time_s": float(proof.time), "witness": place})
        named = {"protocol": bound.protocol} if bound.protocol else {}
        rows.append({"size_bytes": bound.size_bytes, **size_bound_values(bound), **named, "proofs": proofs})
    source = {} if model is None else {"cost_model": model.name, "cost_model_source": model.source}
    return {**source, "at_sizes": rows, "size_witnesses": [value for _, value in certificates.values()]}
