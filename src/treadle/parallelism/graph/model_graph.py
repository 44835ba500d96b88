"""A whole model as compute graphs: parts that follow each other, one of them repeated as its layers are.

All boundaries between parts, and between the repeats of a part, carry a tensor of one shape: the activations
on the way forward, their gradient on the way back. So one state of each fits the entire model, and a layer
that is repeated is a part once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise

from treadle.brief import brief
from treadle.errors import TreadleError
from treadle.parallelism.graph.compute_graph import ComputeGraph, Source, TensorRef
from treadle.parallelism.graph.graph_files import to_json

VERSION = 1
"""Version of the JSON of model graphs."""


@brief("name", "repeats", "graph")
@dataclass(frozen=True)
class ModelPart:
    """A part of a model: an embedding, a block, a head.

    Parameters
    ----------
    name : str
        Unique in its model.
    graph : ComputeGraph
        Forward and backward of one run of the part.
    repeats : int
        Runs of it in a step, each with parameters of its own.
    enters : TensorRef or None
        The input that the part before feeds; None at the model's beginning. A model may also begin with a
        part that has one, which then comes from outside: a stack of blocks without ends.
    leaves : TensorRef or None
        The result that the part after reads; None at the model's end.

    Raises
    ------
    TreadleError
        If ``enters`` is not an input with a gradient, or ``leaves`` no result with a tangent.

    Examples
    --------
    >>> import treadle
    >>> part = treadle.capture("gpt2", tokens=4096).part("block")
    >>> part.repeats, len(part.graph.nodes), len(part.parameters)
    (12, 62, 16)
    """

    name: str
    graph: ComputeGraph
    repeats: int
    enters: TensorRef | None
    leaves: TensorRef | None

    def __post_init__(self) -> None:
        graph, place = self.graph, f"model graph: {self.name}"
        if self.repeats < 1:
            raise TreadleError(f"{place} runs {self.repeats} times; expected 1 or more")
        if self.repeats > 1 and (self.enters is None or self.leaves is None):
            raise TreadleError(f"{place} is repeated, but does not feed itself")
        known = set(graph.tensors())
        for tensor in (self.enters, self.leaves):
            if tensor is not None and tensor not in known:
                raise TreadleError(f"{place}: no tensor {tuple(tensor)}")
        if self.enters is not None:
            node = graph.nodes[self.enters.node]
            if node.source is not Source.INPUT or self.enters not in graph.gradients:
                raise TreadleError(
                    f"{place}: {node.name} is not an input with a gradient, which the part before could "
                    "feed; expected one (as captured: an input that requires_grad)"
                )
        if self.leaves is not None and self.leaves not in graph.tangents:
            raise TreadleError(f"{place}: {graph.spelled(self.leaves)} is not an output with a tangent")

    def factors(self, tensor: TensorRef) -> tuple[tuple[str, int], ...]:
        """Return the names and sizes of a tensor's factors of more than one element."""
        indices = [index for index in self.graph.factors(tensor) if self.graph.size(index) > 1]
        return tuple((self.graph.dim_name(index), self.graph.size(index)) for index in indices)

    @cached_property
    def parameters(self) -> Mapping[str, TensorRef]:
        """Its parameters by their paths."""
        return {
            node.path: TensorRef(number)
            for number, node in enumerate(self.graph.nodes)
            if node.source is Source.PARAMETER
        }

    @cached_property
    def parameter_elements(self) -> int:
        """Elements of the parameters of one run."""
        return sum(self.graph.elements(tensor) for tensor in self.parameters.values())


@dataclass(frozen=True)
class Tie:
    """A parameter that two parts share: a head that uses the embedding's table.

    Parameters
    ----------
    first, second : (str, str)
        A part's name and the parameter's path in it. It is stored once, as the first; gradients add.
    """

    first: tuple[str, str]
    second: tuple[str, str]


@brief("name", "parameters")
@dataclass(frozen=True)
class ModelGraph:
    """Parts in the order in which they first run.

    Parameters
    ----------
    name : str
    parts : tuple of ModelPart
    batch, sequence : str
        Dimensions of samples and of their tokens (names); "" where a module has none or it is unknown.
    tokens : int
        Tokens of a step, or samples; 0: unknown.
    order : tuple of int
        The part that each layer is, in order: of three dense layers before 58 with experts, embedding and
        head around them, ``(0, 1, 1, 1, 2, ..., 2, 3)``. By default each part's repeats follow each other.
    ties : tuple of Tie
        Parameters that parts share.

    Raises
    ------
    TreadleError
        If names repeat, parts do not fit each other, or the order does not run each part as often as it is
        repeated.

    Examples
    --------
    >>> import treadle
    >>> model = treadle.capture("gpt2", tokens=4096)
    >>> model
    <ModelGraph gpt2, parameters 124439808>
    >>> [(part.name, part.repeats) for part in model.parts]
    [('embedding', 1), ('block', 12), ('head', 1)]
    """

    name: str
    parts: tuple[ModelPart, ...]
    batch: str = ""
    sequence: str = ""
    tokens: int = 0
    order: tuple[int, ...] = ()
    ties: tuple[Tie, ...] = ()

    @property
    def sequence_tokens(self) -> int:
        """Tokens of a sequence; 1 where the graph has no dimension of them."""
        sizes = (atom.size for part in self.parts for atom in part.graph.atoms if atom.name == self.sequence)
        return next(sizes, 1)

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not names or len(set(names)) < len(names):
            raise self._fault(f"expected parts with distinct names, found {names}")
        if not self.order:
            one_by_one = tuple(at for at, part in enumerate(self.parts) for _ in range(part.repeats))
            object.__setattr__(self, "order", one_by_one)
        if Counter(self.order) != {at: part.repeats for at, part in enumerate(self.parts)}:
            raise self._fault("the order and the parts' repeats differ")
        for before, after in sorted(set(pairwise(self.order))):
            self._check_fit(self.parts[before], self.parts[after])
        for tie in self.ties:
            self._check_tie(tie)

    def _fault(self, text: str) -> TreadleError:
        return TreadleError(f"model graph {self.name}: {text}")

    def _check_fit(self, before: ModelPart, after: ModelPart) -> None:
        """Check that each part's output is the next one's input, factor by factor."""
        if before.leaves is None or after.enters is None:
            raise self._fault(f"{before.name} does not feed {after.name}")
        gradient, tangent = after.graph.gradients[after.enters], before.graph.tangents[before.leaves]
        for giver, given, taker, taken, how in (
            (before, before.leaves, after, after.enters, "gives"),
            (after, gradient, before, tangent, "gives back"),
        ):
            made, wanted = giver.factors(given), taker.factors(taken)
            if [size for _, size in made] != [size for _, size in wanted]:
                flow = f"{giver.name} {how} {_spelled(made)}, {taker.name} takes {_spelled(wanted)}"
                raise self._fault(f"{flow}; expected the same factors")

    def _check_tie(self, tie: Tie) -> None:
        shapes = []
        for name, path in (tie.first, tie.second):
            part = self.part(name)
            if path not in part.parameters or part.repeats > 1:
                raise self._fault(f"{name} has no parameter {path!r} to share")
            shapes.append(tuple(size for _, size in part.factors(part.parameters[path])))
        if shapes[0] != shapes[1]:
            names = f"{tie.first[1]} and {tie.second[1]}"
            raise self._fault(f"{names} are tied, but of shapes {shapes[0]} and {shapes[1]}")

    def part(self, name: str) -> ModelPart:
        """Return the part of a name."""
        found = next((part for part in self.parts if part.name == name), None)
        if found is None:
            raise self._fault(f"no part {name!r}")
        return found

    @property
    def layers(self) -> int:
        """Runs of parts in a step."""
        return len(self.order)

    def runs(self) -> Iterator[tuple[ModelPart, int]]:
        """Yield the layers in order: the part, and the number of its run, counted from 0."""
        counts = Counter[int]()
        for at in self.order:
            yield self.parts[at], counts[at]
            counts[at] += 1

    @cached_property
    def parameters(self) -> int:
        """Elements of all parameters, a shared one counted once."""
        shared = [(self.part(name), path) for name, path in (tie.second for tie in self.ties)]
        twice = sum(part.graph.elements(part.parameters[path]) for part, path in shared)
        return sum(part.repeats * part.parameter_elements for part in self.parts) - twice

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its JSON, in hexadecimal: what a plan was made for."""
        text = json.dumps(model_to_json(self), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        return "\n".join(f"{part.name} x {part.repeats}\n{part.graph}" for part in self.parts)


def _spelled(factors: tuple[tuple[str, int], ...]) -> str:
    return " x ".join(f"{name}={size}" for name, size in factors) or "a scalar"


def model_to_json(model: ModelGraph) -> dict[str, object]:
    """Return A model graph as a value of JSON.

    Examples
    --------
    >>> import treadle
    >>> told = treadle.planning.model_to_json(treadle.capture("gpt2", tokens=4096))
    >>> told["name"], told["tokens"], [part["name"] for part in told["parts"]]
    ('gpt2', 4096, ['embedding', 'block', 'head'])
    """
    return {
        "treadle": "model graph",
        "version": VERSION,
        "name": model.name,
        "batch": model.batch,
        "sequence": model.sequence,
        "tokens": model.tokens,
        "order": list(model.order),
        "ties": [[list(tie.first), list(tie.second)] for tie in model.ties],
        "parts": [
            {
                "name": part.name,
                "repeats": part.repeats,
                "enters": part.enters and list(part.enters),
                "leaves": part.leaves and list(part.leaves),
                "graph": to_json(part.graph),
            }
            for part in model.parts
        ],
    }
