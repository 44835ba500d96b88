"""Repeated layers of a captured model, found by themselves: equal parts that follow each other become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from treadle.errors import TreadleError
from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    OperatorKind,
    Source,
    TensorRef,
    dim_names,
)
from treadle.parallelism.graph.folding.cuts import Anatomy, PartCut, cuts_of
from treadle.parallelism.graph.folding.extraction import extracted, signature
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie


@dataclass(frozen=True)
class _Run:
    """Segments from ``start`` on, ``period`` of them at a time, repeated."""

    start: int
    period: int
    repeats: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.repeats


def folded(graph: ComputeGraph, *, name: str) -> ModelGraph:
    """Return the model graph of a whole captured model.

    Parameters
    ----------
    graph : ComputeGraph
        Joint graph.
    name : str
        Of the model.

    Returns
    -------
    ModelGraph
        Parts ``embedding``, ``block`` (the repeated one) and ``head``; one part ``model`` if nothing is
        repeated. Paths of a repeated part's parameters stand for those of all repeats:
        ``layers.*.wq.weight`` for layers 0, 1, 2 and so on, ``layers.[1:32:2].wq.weight`` for others. What
        depends on no parameter (positions, masks) is in every part that uses it.
    """
    anatomy = Anatomy(graph)
    cuts = cuts_of(anatomy)
    shared = [graph.nodes[parameter.node].path for parameter in anatomy.pieces]
    try:
        segments = [
            signature(extracted(anatomy, *ends, ""), shared=shared) for ends in pairwise((None, *cuts, None))
        ]
        runs = _alike(graph, cuts, _runs(segments))
        blocks = [block for run in runs if (block := _block(anatomy, cuts, run, shared)) is not None]
        parts = _parts(anatomy, cuts, blocks)
    except TreadleError:
        parts = []  # parameters that parts share in ways that ties cannot say
    if not any(part.repeats > 1 for part in parts):
        return _finished(graph, name, [ModelPart("model", graph, 1, None, None)], ())
    ties = tuple(
        Tie((first.name, path), (second.name, path))
        for path in shared
        for first, second in pairwise([part for part in parts if path in part.parameters])
    )
    return _finished(graph, name, parts, ties)


def repeated(graph: ComputeGraph, *, name: str, repeats: int) -> ModelGraph:
    """Return the model graph of a captured block that runs several times, one after the other.

    Raises
    ------
    TreadleError
        If no input with a gradient is of the shape of an output.
    """
    for enters in graph.gradients:
        if graph.nodes[enters.node].source is not Source.INPUT:
            continue
        for leaves in graph.tangents:
            if [i.atom for i in graph.factors(enters)] == [i.atom for i in graph.factors(leaves)]:
                return _finished(graph, name, [ModelPart("block", graph, repeats, enters, leaves)], ())
    raise TreadleError(
        f"model graph {name}: no output has the dimensions of an input with a gradient; a block that is "
        "repeated feeds itself"
    )


def _runs(segments: Sequence[str]) -> list[_Run]:
    """Return equal stretches that follow each other, the longest first found, of the shortest period."""
    found = []
    start = 0
    while start < len(segments):
        best = _Run(start, 1, 1)
        for period in range(1, (len(segments) - start) // 2 + 1):
            stretch, run = segments[start : start + period], _Run(start, period, 1)
            while stretch == segments[run.end : run.end + period]:
                run = replace(run, repeats=run.repeats + 1)
            if run.repeats > 1 and run.end > best.end:
                best = run
        if best.repeats > 1:
            found.append(best)
        start = best.end
    return found


def _ends(cuts: Sequence[PartCut], start: int, stop: int) -> tuple[PartCut | None, PartCut | None]:
    """Return the cuts around segments from ``start`` to before ``stop``."""
    return (cuts[start - 1] if start else None, cuts[stop - 1] if stop <= len(cuts) else None)


def _block(
    anatomy: Anatomy, cuts: Sequence[PartCut], run: _Run, shared: Sequence[str]
) -> tuple[_Run, ModelPart] | None:
    """Return the part that a run repeats; None if its stretches differ as wholes, or it has a model's end."""
    if None in _ends(cuts, run.start, run.end):
        return None
    starts = range(run.start, run.end, run.period)
    parts = [extracted(anatomy, *_ends(cuts, start, start + run.period), "block") for start in starts]
    known = {path for part in parts for path in part.parameters}
    if len({signature(part, shared=shared) for part in parts}) > 1 or known.intersection(shared):
        return None
    return run, _merged(parts)


def _alike(graph: ComputeGraph, cuts: Sequence[PartCut], runs: Sequence[_Run]) -> list[_Run]:
    """Return the runs between whose parts the same factors cross as in the longest: one state fits all."""
    crossing = {run: graph.factor_sizes(cuts[run.start - 1].forward) for run in runs if run.start}
    longest = max(crossing, key=lambda run: run.repeats, default=_Run(0, 1, 1))
    return [run for run, sizes in crossing.items() if sizes == crossing[longest]]


def _parts(
    anatomy: Anatomy, cuts: Sequence[PartCut], blocks: Sequence[tuple[_Run, ModelPart]]
) -> list[ModelPart]:
    """Return the repeated parts, and what lies before, between and after them."""
    parts: list[ModelPart] = []
    start = 0
    for number, (run, block) in enumerate(blocks, 1):
        if start < run.start:
            name = "embedding" if not start else f"between {number - 1} and {number}"
            parts.append(extracted(anatomy, *_ends(cuts, start, run.start), name))
        parts.append(block if len(blocks) == 1 else replace(block, name=f"block {number}"))
        start = run.end
    if blocks:
        parts.append(extracted(anatomy, *_ends(cuts, start, len(cuts) + 1), "head"))
    return parts


def _merged(instances: Sequence[ModelPart]) -> ModelPart:
    """Return the first of equal parts; its parameters have the common form of their paths."""
    first = instances[0].graph
    nodes = list(first.nodes)
    for number, node in enumerate(nodes):
        paths = [part.graph.nodes[number].path.split(".") for part in instances]
        if node.source in (Source.PARAMETER, Source.BUFFER) and len({len(path) for path in paths}) == 1:
            words = map(common_prefix, zip(*paths, strict=True))
            nodes[number] = replace(node, path=".".join(words))
    graph = replace(first, nodes=tuple(nodes))
    return replace(instances[0], graph=graph, repeats=len(instances))


def common_prefix(found: Sequence[str], *, has_all: bool = True) -> str:
    """Return the common element of equal parts' paths: a word, numbers as a slice, or ``*`` for 0, 1, 2, ...

    Parameters
    ----------
    found : sequence of str
        Words of the parts, in order.
    has_all : bool
        No other part has numbers there: 0, 1, 2, ... are all that there are.

    Examples
    --------
    >>> common_prefix(["0", "1", "2"]), common_prefix(["1", "3"])
    ('*', '[1:4:2]')
    >>> common_prefix(["0", "1", "2"], has_all=False)
    '[0:3]'
    """
    if len(set(found)) == 1:
        return found[0]
    if not all(word.isascii() and word.isdigit() for word in found):
        return "|".join(found)
    first, second, *_, last = (*map(int, found), int(found[-1]))
    step = second - first
    if [int(word) for word in found] != list(range(first, last + 1, step or 1)):
        return "|".join(found)
    if has_all and (first, step) == (0, 1):
        return "*"
    return f"[{first}:{last + 1}]" if step == 1 else f"[{first}:{last + 1}:{step}]"


def _finished(
    graph: ComputeGraph, name: str, parts: Sequence[ModelPart], ties: tuple[Tie, ...]
) -> ModelGraph:
    """Name the dimensions of samples and tokens; several parts are named in their order of use."""
    new: dict[str, str] = {}
    left = dim_names() if len(parts) > 1 else iter(atom.name for atom in graph.atoms)
    for part in parts:
        for atom in part.graph.atoms:
            if atom.name not in new:
                new[atom.name] = next(left)
    renamed = []
    for part in parts:
        atoms = tuple(BaseDim(new[atom.name], atom.size) for atom in part.graph.atoms)
        renamed.append(replace(part, graph=replace(part.graph, atoms=atoms)))
    names, tokens = _first_dimensions(graph)
    batch, sequence = (new.get(one, "") for one in names)
    return ModelGraph(name, tuple(renamed), batch, sequence, tokens, ties=ties)


def _first_dimensions(graph: ComputeGraph) -> tuple[tuple[str, str], int]:
    """Return the dimensions of samples and of tokens, and the number of tokens.

    Samples come first, tokens second, if a dimension besides the two is left, or words are looked up.
    """
    for number, node in enumerate(graph.nodes):
        tensor = TensorRef(number)
        if node.source is not Source.INPUT or not graph.result(tensor).dims:
            continue
        shape, dims = graph.shape(tensor), graph.result(tensor).dims
        readers = [other for other in graph.nodes if tensor in [operand.tensor for operand in other.operands]]
        is_index = any(other.kind is OperatorKind.GATHER for other in readers)
        rank = min(len(shape), 2) if is_index or len(shape) > 2 else 1
        names = [graph.atoms[dim[0].atom].name if dim else "" for dim in dims[:rank]]
        return (names[0], names[1] if rank > 1 else ""), prod(shape[:rank])
    return ("", ""), 0
