"""The least time of any schedule at a size: the greatest of what the kinds of witnesses prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from treadle.schedules.certificate import Certificate
from treadle.schedules.collective import Collective
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.size_bounds.crossing import Window, crossing_time, windows
from treadle.simulation.size_bounds.cut_candidates import cut_candidates
from treadle.simulation.size_bounds.direct_messages import DirectPairs, direct_pairs
from treadle.simulation.size_bounds.distance import farthest_pair
from treadle.simulation.size_bounds.gathered import GatheredCut, gathered_cuts, gathered_time
from treadle.simulation.size_bounds.message_terms import message_terms
from treadle.simulation.size_bounds.pair_growth import growth_certificate, growth_time_ns
from treadle.simulation.size_bounds.reach import reach_certificate, reach_time_ns
from treadle.simulation.size_bounds.relayed_messages import RelayedMessages, relayed_messages
from treadle.simulation.size_bounds.size_certificate import (
    CrossingCertificate,
    GrowthCertificate,
    SizeBound,
    SizeProof,
    SizeWitness,
)
from treadle.topologies.topology import Topology


def protocols_of(options: SimulationOptions, model: CostModel | None) -> tuple[Protocol, ...]:
    """What messages cost: the protocols of a model, or one alpha for all classes."""
    if model is not None:
        return model.protocols
    if options.costs is not None:
        return (options.costs,)
    every = ClassCost(alpha_ns=options.alpha_ns)
    return (Protocol("alpha", every, every, every),)


@dataclass(frozen=True)
class _Prepared:
    """What does not depend on the size, of a protocol."""

    protocol: Protocol
    crossings: tuple[tuple[Certificate, tuple[Window, ...]], ...]
    fixed: tuple[SizeProof, ...]
    growth: GrowthCertificate | None
    direct: tuple[DirectPairs, ...]
    gathered: tuple[GatheredCut, ...]
    relayed: RelayedMessages | None


class BoundsBySize:
    """Bounds of one collective on one fabric, whatever the size.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    witness : Witness, optional
        Of the most that any schedule reaches without latencies; None if nothing is known of it.
    options : SimulationOptions
        Of these the latencies, and whether messages share links one by one: where they are fluids, nothing
        is said of how soon many are told.
    model : CostModel, optional
        In place of the options' latencies.
    """

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        witness: Certificate | None,
        options: SimulationOptions,
        model: CostModel | None = None,
    ) -> None:
        self._collective = collective
        self._is_named = model is not None or options.costs is not None
        self._prepared = [
            _prepare(topology, collective, witness, one, tells=options.sharing is not Sharing.FAIR)
            for one in protocols_of(options, model)
        ]

    def at(self, sizes: Sequence[int]) -> tuple[SizeBound, ...]:
        """The bound of each size, bytes of the larger per-rank buffer; at least one byte."""
        return tuple(self._at(size) for size in sizes)

    def _at(self, size: int) -> SizeBound:
        found = []
        for one in self._prepared:
            proofs = list(one.fixed)
            launch = Fraction(one.protocol.launch_ns, 10**9)
            kinds: list[list[tuple[Fraction, SizeWitness]]] = [
                [
                    (crossing_time(found, size), CrossingCertificate(witness))
                    for witness, found in one.crossings
                ],
                [(pairs.time_ns(size) / 10**9, pairs.witness) for pairs in one.direct],
                [] if one.relayed is None else [one.relayed.proof(size)],
                [(gathered_time(cut, size), cut[0]) for cut in one.gathered],
            ]
            for times in filter(None, kinds):
                time, latest = max(times, key=lambda proof: proof[0])
                proofs.append(SizeProof(launch + time, latest))
            if one.growth is not None:
                known = max((proof.time for proof in proofs), default=launch) - launch
                grown = growth_time_ns(one.growth, self._collective, size, float(known) * 1e9)
                if grown:
                    proofs.append(SizeProof(launch + Fraction(grown, 10**9), one.growth))
            proofs.sort(key=lambda proof: -proof.time)
            found.append(SizeBound(size, one.protocol.name if self._is_named else "", tuple(proofs)))
        return min(found, key=lambda bound: bound.time)


def _prepare(
    topology: Topology,
    collective: Collective,
    witness: Certificate | None,
    protocol: Protocol,
    *,
    tells: bool,
) -> _Prepared:
    terms = message_terms(topology, protocol)
    fixed = []
    pair = farthest_pair(terms, collective)
    if pair is not None:
        fixed.append(SizeProof(Fraction(protocol.launch_ns + pair[1], 10**9), pair[0]))
    reach = reach_certificate(terms, collective) if tells else None
    if reach is not None:
        fixed.append(SizeProof(Fraction(protocol.launch_ns + reach_time_ns(reach), 10**9), reach))
    crossings = [] if witness is None else [witness]
    crossings += cut_candidates(terms, collective)
    told = [(one, windows(terms, collective, one)) for one in crossings]
    return _Prepared(
        protocol,
        tuple(one for one in told if one[1]),
        tuple(fixed),
        growth_certificate(terms, collective) if tells else None,
        direct_pairs(terms, collective) if tells else (),
        gathered_cuts(terms, collective),
        relayed_messages(terms, collective) if tells else None,
    )
