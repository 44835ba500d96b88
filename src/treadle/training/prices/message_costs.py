"""What messages of a step's collectives cost: one alpha for all, or a cost model's protocols."""

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
    """One of two ways to price messages.

    Parameters
    ----------
    alpha_ns : int
        Of every message, on top of what links have; 0 beside a model.
    model : CostModel, optional
        A collective is carried by the protocol that is quickest at its size.
    """

    alpha_ns: int = 0
    model: CostModel | None = None

    def quickest(self, problem: Problem, price: Callable[[Problem, int], Price]) -> Price:
        """The price of a problem by whichever protocol is quickest.

        Parameters
        ----------
        problem : Problem
        price : callable
            Of a problem on a fabric whose links cost what a protocol's do, and of an alpha beside that.
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
    """What was asked for: a model, an alpha, or else the default model of the fabric.

    Raises
    ------
    FormatError
        If both are given, or there is no such model.
    """
    if alpha_s is None:
        return MessageCosts(model=cost_model_of(topology, cost_model))
    if cost_model is not None:
        raise FormatError(
            "cost_model (--cost-model) and alpha_s (--alpha): a cost model has latencies; expected one of "
            "the two"
        )
    return MessageCosts(round(alpha_s * 1e9))
