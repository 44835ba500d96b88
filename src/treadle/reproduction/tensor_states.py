"""Chapter 5: the FSDP pattern of a matrix multiplication by `parallelize`, and a captured compute graph."""

from __future__ import annotations

from treadle import planning
from treadle.parallelism.capture.linear_layer import linear_layer
from treadle.parallelism.explaining.tensor_story import ReshardingStep, TensorStory, tensor_story
from treadle.parallelism.graph.compute_graph import TensorRef
from treadle.reproduction.paper_figure import Rows

_DIMS = {"a": "rows", "b": "columns", "c": "batch", "d": "sequence"}
"""The names of the captured layer's dimensions in words."""


def figure_5_1(_full: bool) -> Rows:
    """Yield the states and collectives of FSDP, from the states in the preset of `parallelize`."""
    model = planning.capture(linear_layer(has_bias=False), name="linear")
    found = planning.parallelize(model, "ring(8, bandwidth='25GB/s')", gpu="a100", mesh="dp=8")
    search = found.searches[0]
    fsdp = next(one for one in search.named if one.name == "FSDP").plan
    part = model.parts[0]
    nodes = [node.name for node in part.graph.nodes]

    def story(name: str) -> TensorStory:
        tensor = TensorRef(nodes.index(name), 0)
        return tensor_story(fsdp, part, tensor, search.found.posed.problem.mesh, search.found.posed.costs)

    weight = story("primals_1").legs
    yield "weight: sharded along", _sharded(weight[0])
    yield "weight: for the output", _moved(_leg(weight, "mm takes"))
    yield "weight: for the gradient of the input", _moved(_leg(weight, "mm_2 takes"))
    yield "gradient of the weight: sharded along", _sharded(weight[-1])
    yield "gradient of the weight: from partial sums", _moved(weight[-1])
    for words, name, state in (
        ("input", "primals_2", "mm takes"),
        ("output", "mm", "mm makes"),
        ("gradient of the output", "tangents_1", "mm_1 takes"),
        ("gradient of the input", "mm_2", "mm_2 makes"),
    ):
        legs = story(name).legs
        yield f"{words}: sharded along", _sharded(_leg(legs, state))
        yield f"{words}: collectives", sum(len(leg.steps) for leg in legs)


def _leg(legs: tuple[ReshardingStep, ...], what: str) -> ReshardingStep:
    return next(leg for leg in legs if leg.what == what)


def _sharded(leg: ReshardingStep) -> str:
    """Return the dimensions that a state shards, in words."""
    if ":" not in leg.state:
        return "none"
    return ", ".join(_DIMS[word.partition(":")[0]] for word in leg.state.split("/"))


def _moved(leg: ReshardingStep) -> str:
    """Return the collectives that lead to a state."""
    return ", ".join(step.kind.value for step in leg.steps if step.kind is not None) or "none"


def figure_5_2(_full: bool) -> Rows:
    """Yield the lines of the captured graph of a linear layer with a bias, by the name of the node."""
    graph = planning.capture(linear_layer(has_bias=True), name="linear").parts[0].graph
    for line in str(graph).splitlines()[1:]:
        name, _, told = line.strip().partition(": ")
        yield name, told
