"""Cost models as users give them: a value, the name of one that comes with Treadle, or a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from treadle.errors import FormatError
from treadle.input_files import is_file
from treadle.simulation.costs.cost_model import ClassCost as ClassCost
from treadle.simulation.costs.cost_model import CostModel as CostModel
from treadle.simulation.costs.cost_model import LinkClass as LinkClass
from treadle.simulation.costs.cost_model import Protocol as Protocol
from treadle.simulation.costs.cost_model_file import load_cost_model as load_cost_model
from treadle.simulation.costs.cost_model_file import save_cost_model as save_cost_model
from treadle.simulation.costs.cost_presets import cost_presets as cost_presets
from treadle.simulation.costs.cost_presets import default_cost_model as default_cost_model
from treadle.simulation.costs.cost_presets import reference_hop_ns as reference_hop_ns
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.topologies.topology import Topology

CostModelLike = CostModel | str | Path


def cost_model_of(topology: Topology, given: CostModelLike | None) -> CostModel:
    """Return the given cost model, or the default of the fabric; see `as_cost_model`.

    NCCL's limits differ in one box and across several, so its preset for boxes replaces the given one if the
    fabric has a network.
    """
    if given is None:
        return default_cost_model(topology)
    model, presets = as_cost_model(given), cost_presets()
    across = presets.get(f"{model.name}-boxes")
    if across is None or presets[model.name] != model:
        return model
    has_network = (link_classes(topology) == CLASSES.index(LinkClass.NETWORK)).any()
    return across if has_network else model


def step_alpha_ns(topology: Topology) -> int:
    """Return the cost of a step without bytes and stated latencies, by the fabric's default model, ns.

    It is a message's cost over the most expensive class of links, since all ranks step together.
    """
    (protocol,) = default_cost_model(topology).protocols
    present = [CLASSES[number] for number in np.unique(link_classes(topology)).tolist()]
    costs = [protocol.of(one) for one in present]
    return max((one.alpha_ns + one.occupancy_ns + one.hop_ns for one in costs), default=0)


def as_cost_model(given: CostModelLike) -> CostModel:
    """Return the cost model of a value, a name or a path.

    Parameters
    ----------
    given : CostModel, str or Path
        The name of a model that comes with Treadle takes precedence over a file of that name.

    Raises
    ------
    FormatError
        If the model does not exist, or its file is malformed.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.as_cost_model("reference").name
    'reference'
    """
    if isinstance(given, CostModel):
        return given
    if not isinstance(given, str | Path):
        raise FormatError(f"cost model: expected a CostModel, a name or a path, found {type(given).__name__}")
    presets = cost_presets()
    if isinstance(given, str) and given in presets:
        return presets[given]
    if not is_file(given):
        raise FormatError(
            f"cost model {str(given)[:60]!r}: neither a file that exists nor one of {', '.join(presets)}"
        )
    return load_cost_model(given)
