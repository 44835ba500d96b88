"""Random compute graphs of at most five operators, with the gradients of their parameters."""

from __future__ import annotations

import numpy as np

from parallelism.plan.small_models import Drafted
from treadle.parallelism.graph.compute_graph import OperatorKind, Source
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart

MOST_OPERATORS = 5
SIZES = (2, 3, 4, 5, 96, 250, 1024, 1027)
"""Of letters: cut by no axis, by one, or by both."""
LETTERS = "abcd"


class RandomChain:
    """Operators after each other, each on what the one before made; then back to every parameter."""

    def __init__(self, seed: int) -> None:
        self.pick = np.random.default_rng(seed)
        self.sizes = {letter: int(self.pick.choice(SIZES)) for letter in LETTERS}
        self.draft = Drafted(**self.sizes)
        self.steps: list[tuple[str, str, str, str]] = []
        """Kind, what it reads, its parameter or "", what it makes."""
        self.gradients: dict[str, str] = {}
        self.n_operators = 0

    def operator(self, name: str, word: str, kind: OperatorKind, *read: str, backward: bool = False) -> None:
        product = kind is OperatorKind.EINSUM
        linear = () if product else ((0,),) if backward or kind is OperatorKind.REDUCTION else ()
        self.draft.operator(name, word, kind, *read, backward=backward, linear=linear)
        self.n_operators += 1

    def forward(self, n: int) -> str:
        pick, word = (
            self.pick,
            "".join(sorted(self.pick.permutation(list(LETTERS))[: self.pick.integers(1, 3)])),
        )
        self.draft.placeholder("x", word, Source.INPUT)
        at = "x"
        for number in range(n):
            kind = str(pick.choice(["EINSUM", "EINSUM", "UNARY", "SCALED", "REDUCTION"]))
            name, parameter, made = f"y{number}", "", word
            if kind == "EINSUM":
                gone, new = (
                    str(pick.choice(list(word))),
                    str(pick.choice([one for one in LETTERS if one not in word])),
                )
                parameter, made = f"w{number}", word.replace(gone, new)
                self.draft.placeholder(parameter, gone + new, Source.PARAMETER)
                self.operator(name, made, OperatorKind.EINSUM, at, parameter)
            elif kind == "SCALED":
                parameter = f"w{number}"
                self.draft.placeholder(parameter, word, Source.PARAMETER)
                self.operator(name, word, OperatorKind.ELEMENTWISE, at, parameter)
            elif kind == "REDUCTION" and len(word) > 1:
                made = word.replace(str(pick.choice(list(word))), "")
                self.operator(name, made, OperatorKind.REDUCTION, at)
            else:
                kind = "UNARY"
                self.operator(name, word, OperatorKind.ELEMENTWISE, at)
            self.steps.append((kind, at, parameter, name))
            at, word = name, made
        return at

    def backward(self, last: str) -> None:
        words, at = self.draft.words, "d" + last
        self.draft.placeholder(at, words[last], Source.TANGENT)
        firsts = [number for number, step in enumerate(self.steps) if step[2]]
        for number in range(len(self.steps) - 1, min(firsts, default=len(self.steps)) - 1, -1):
            kind, read, parameter, _ = self.steps[number]
            if parameter:
                is_product = kind == "EINSUM"
                own = OperatorKind.EINSUM if is_product else OperatorKind.ELEMENTWISE
                self.operator(f"d{parameter}", words[parameter], own, at, read, backward=True)
                self.gradients[parameter] = f"d{parameter}"
            if number > min(firsts):
                others = {"EINSUM": [parameter], "SCALED": [parameter], "UNARY": [read], "REDUCTION": []}[
                    kind
                ]
                own = OperatorKind.EINSUM if kind == "EINSUM" else OperatorKind.ELEMENTWISE
                self.operator(f"d{read}", words[read], own, at, *others, backward=True)
                at = f"d{read}"


def random_model(seed: int) -> ModelGraph | None:
    """One part; none where the draw has too many operators, or no parameter."""
    chain = RandomChain(seed)
    last = chain.forward(int(chain.pick.integers(1, 4)))
    chain.backward(last)
    if not chain.gradients or chain.n_operators > MOST_OPERATORS:
        return None
    graph = chain.draft.graph(chain.gradients, {last: "d" + last}, last)
    return ModelGraph(f"random {seed}", (ModelPart("only", graph, 1, None, None),))
