"""Layouts that people know, on a block of Llama: each collective and its bytes, derived by hand."""

from __future__ import annotations

from itertools import combinations

from parallelism.evaluation.named_layouts import by_letter, laid_out
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts
from treadle.training.models.zoo import zoo_model

BATCH, TOKENS, HIDDEN, INNER, HEADS, KEY_HEADS, SIZE = 16, 8192, 4096, 14336, 32, 8, 128
MODEL = model_graph(zoo_model("llama-3-8b"), batch=BATCH, sequence=TOKENS)


def costs(*axes: str) -> AlphaBetaCosts:
    groups = [some for n in range(1, len(axes) + 1) for some in combinations(axes, n)]
    return AlphaBetaCosts(1e-6, {(kind, some): 100e9 for kind in CollectiveKind for some in groups})


def whole(path: str, letters: tuple[str, ...]) -> Sharding:
    del path
    return Sharding(((),) * len(letters))


def data_parallel(store: object = whole, axis: str = "dp") -> ParallelPlan:
    return laid_out(
        MODEL,
        Mesh((8,), (axis,)),
        by_letter(axis, "b"),
        boundary={axis: "b"},
        stored=store,  # type: ignore[arg-type]
    )


def tensor_parallel() -> ParallelPlan:
    def stored(path: str, letters: tuple[str, ...]) -> Sharding:
        del path
        cut = next((letter for letter in letters if letter in "kfv"), None)
        return Sharding(tuple(("tp",) if letter == cut else () for letter in letters))

    cut = by_letter("tp", "k", "f", "v", "s")
    return laid_out(MODEL, Mesh((8,), ("tp",)), cut, boundary={"tp": "s"}, stored=stored)
