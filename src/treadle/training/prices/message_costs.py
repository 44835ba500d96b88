"""Costs of messages of a step's collectives: one alpha for all, or a cost model's protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.inputs.problem import Problem
from treadle.simulation.cost_models import CostModelLike, cost_model_of
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.priced_fabric import priced_fabric
from treadle.topologies.topology import Topology
from treadle.training.prices.collective_prices import Price, QuickestPrice


@brief("alpha_ns", "model.name")
@dataclass(frozen=True)
class MessageCosts:
    """Costs of messages, by one alpha or by a model.

    Parameters
    ----------
    alpha_ns : int
        Latency of every message, added to the links'; 0 with a model.
    model : CostModel, optional
        The fastest protocol at its size carries a collective.
    """

    alpha_ns: int = 0
    model: CostModel | None = None

    def quickest(self, problem: Problem, price: Callable[[Problem, int], Price]) -> Price:
        """Return the price of a problem by the fastest protocol at each size.

        `price` computes the price of a problem whose links have a protocol's costs, and an additional alpha.
        """
        if self.model is None:
            return price(problem, self.alpha_ns)
        found = []
        for protocol in self.model.protocols:
            topology, alpha_ns = priced_fabric(problem.topology, protocol)
            found.append((protocol.launch_ns / 1e9, price(replace(problem, topology=topology), alpha_ns)))
        return QuickestPrice(tuple(found))


def message_costs(
    topology: Topology, *, alpha_s: float | None = None, cost_model: CostModelLike | None = None
) -> MessageCosts:
    """Return the costs by a model, an alpha, or the default model of the fabric; FormatError for both."""
    if alpha_s is None:
        return MessageCosts(model=cost_model_of(topology, cost_model))
    if cost_model is not None:
        raise FormatError(
            "cost_model (--cost-model) and alpha_s (--alpha): both were given, and a cost model has "
            "latencies; use one of them"
        )
    return MessageCosts(round(alpha_s * 1e9))
