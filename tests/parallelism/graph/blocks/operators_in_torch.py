"""What the operators of drawn graphs compute, in PyTorch, and gradients as drawn; loads torch.

A tensor has one axis for each factor. A backward operator is the vector-Jacobian product of its forward one;
of the forward operands it gets those that the drawn graph lets it read, and zeros for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from treadle.parallelism.graph.blocks.gradients import READS
from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    Phase,
    TensorRef,
)

Words = list[list[Index]]
Values = dict[TensorRef, Tensor]
generator = torch.Generator()


def flat(dims) -> list[Index]:
    return [index for dim in dims for index in dim]


class Machine:
    """A graph, run operator by operator."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph = graph

    def size(self, letter: str) -> int:
        return next(atom.size for atom in self.graph.atoms if atom.name == letter)

    def placeholder(self, number: int) -> Tensor:
        node = self.graph.nodes[number]
        shape = [self.graph.atoms[i.atom].size for i in flat(node.results[0].dims)]
        if node.path in ("words", "targets"):
            return torch.randint(self.size("v"), shape, generator=generator)
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    def seen(self, values: Values, tensor: TensorRef, indices: Sequence[Index]) -> Tensor:
        own = flat(self.graph.result(tensor).dims)
        return values[tensor].permute([own.index(index) for index in indices])

    def einsum(
        self, tensors: Sequence[Tensor], words: Sequence[Sequence[Index]], made: Sequence[Index]
    ) -> Tensor:
        number: dict[Index, int] = {}
        arguments: list[object] = []
        for tensor, word in zip(tensors, words, strict=True):
            arguments += [tensor, [number.setdefault(index, len(number)) for index in word]]
        return torch.einsum(*arguments, [number[index] for index in made])

    def run(self, values: Values, *, phase: Phase) -> None:
        """All operators of a pass."""
        for at, node in enumerate(self.graph.nodes):
            if node.phase is not phase or node.kind in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT):
                continue
            tensors = [self.seen(values, o.tensor, flat(o.dims)) for o in node.operands]
            made = (self.forward if phase is Phase.FORWARD else self.backward)(node, tensors)
            for slot, tensor in enumerate(made):
                values[TensorRef(at, slot)] = tensor

    def forward(self, node: Node, tensors: Sequence[Tensor]) -> list[Tensor]:
        words = [flat(o.roles) for o in node.operands]
        made = [flat(r.roles) for r in node.results]
        if node.operator == "einsum":
            return [self.einsum(tensors, words, made[0])]
        if node.operator in ("add", "sum"):
            return [self.total(tensors, words, made[0])]
        found = OPERATORS[node.operator](self, node, *tensors)
        return list(found) if isinstance(found, tuple) else [found]

    def total(self, tensors: Sequence[Tensor], words: Words, made: Sequence[Index]) -> Tensor:
        if len(tensors) == 1:
            return self.einsum(tensors, words, made)
        aligned = []
        for tensor, word in zip(tensors, words, strict=True):
            order = sorted(range(len(word)), key=lambda n: made.index(word[n]))
            tensor = tensor.permute(order)
            for place, index in enumerate(made):
                if index not in word:
                    tensor = tensor.unsqueeze(place)
            aligned.append(tensor)
        return sum(aligned[1:], aligned[0])

    def origin(self, node: Node) -> Node:
        """The forward operator whose gradients a node computes, told by its name."""
        for other in self.graph.nodes:
            if f"{other.operator}_backward" != node.operator or other.phase is Phase.BACKWARD:
                continue
            read = [self.graph.nodes[o.tensor.node].name for o in other.operands]
            if node.name in (
                f"{other.name}_backward",
                *(f"d_{n}" for n in read),
                *(f"d_{n}_{other.name}" for n in read),
            ):
                return other
        raise AssertionError(node.name)

    def backward(self, node: Node, tensors: Sequence[Tensor]) -> list[Tensor]:
        if node.operator in ("einsum", "add", "sum"):
            return self.forward(node, tensors)
        wanted = [flat(result.roles) for result in node.results]
        if node.operator in SPARSE:
            word, function = SPARSE[node.operator]
            names = [self.graph.atoms[index.atom].name for index in wanted[0]]
            return [function(self, *tensors).permute([word.index(name) for name in names])]
        origin = self.origin(node)
        if node.operator == "lookup_backward":
            *index, gradient = tensors
            return self.product(origin, [self.zeros(wanted[0]), *index], [gradient], [0])
        operands, results = READS[origin.operator]
        gradients = tensors[: len(tensors) - len(operands) - len(results)]
        given = dict(zip(operands, tensors[len(gradients) :], strict=False))
        roles = [flat(operand.roles) for operand in origin.operands]
        everything = [given.get(place, self.zeros(word)) for place, word in enumerate(roles)]
        places: list[int] = []
        for word in wanted:
            places.append(next(p for p, own in enumerate(roles) if set(own) == set(word) and p not in places))
        found = self.product(origin, everything, gradients, places)
        return [
            tensor.permute([roles[place].index(index) for index in word])
            for tensor, place, word in zip(found, places, wanted, strict=True)
        ]

    def zeros(self, word: Sequence[Index]) -> Tensor:
        return torch.zeros([self.graph.atoms[index.atom].size for index in word], dtype=torch.float64)

    def product(
        self, origin: Node, operands: Sequence[Tensor], gradients: Sequence[Tensor], places: Sequence[int]
    ):
        """The vector-Jacobian product of an operator."""
        leaves = [o.detach().clone().requires_grad_() if o.is_floating_point() else o for o in operands]
        made = [one for one in self.forward(origin, leaves) if one.is_floating_point()][: len(gradients)]
        return list(torch.autograd.grad(made, [leaves[p] for p in places], gradients))


def rms_norm(_: Machine, node: Node, x: Tensor, scale: Tensor) -> Tensor:
    """Over the dimensions of the scale, wherever they are in what is normed."""
    roles = flat(node.operands[0].roles), flat(node.operands[1].roles)
    over = [roles[0].index(index) for index in roles[1]]
    scale = scale[tuple(slice(None) if index in roles[1] else None for index in roles[0])]
    return x * torch.rsqrt(x.square().mean(over, keepdim=True) + 1e-5) * scale


def layer_norm(_: Machine, __: Node, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return torch.layer_norm(x, x.shape[-1:], scale, shift)


def rotary(_: Machine, __: Node, x: Tensor) -> Tensor:
    turn = torch.linalg.qr(torch.arange(x.shape[-1] ** 2).reshape(x.shape[-1], -1).cos().double())[0]
    angles = torch.arange(x.shape[-2]).double()[:, None]
    return x * angles.cos() + x @ turn * angles.sin()


def concatenate(_: Machine, __: Node, plain: Tensor, shared: Tensor) -> Tensor:
    return torch.cat((plain, shared[:, None].expand(-1, plain.shape[1], -1, -1)), dim=-1)


def attention(machine: Machine, node: Node, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    has_groups = q.dim() > k.dim()
    if not has_groups:
        q = q.unsqueeze(2)
    scores = torch.einsum("bkgsd,bktd->bkgst", q, k)
    length = scores.shape[-1]
    back = torch.arange(length)[:, None] - torch.arange(length)[None]
    window = node.arguments["window"] or length
    is_seen = (back >= 0) & (back < window)
    if node.arguments.get("is_chunked"):
        chunk = torch.arange(length) // window
        is_seen = (back >= 0) & (chunk[:, None] == chunk[None])
    scores = scores.masked_fill(~is_seen, float("-inf"))
    made = torch.einsum("bkgst,bktw->bkgsw", scores.softmax(-1), v)
    logs = scores.logsumexp(-1)
    return (made, logs) if has_groups else (made.squeeze(2), logs.squeeze(2))


def route(machine: Machine, _: Node, scores: Tensor) -> tuple[Tensor, Tensor]:
    best, choices = scores.topk(machine.size("n"), dim=-1)
    return best.softmax(-1), choices


def places(machine: Machine, choices: Tensor) -> Tensor:
    """[s b n e c]: one where a token has a place of an expert; each sample fills its own."""
    experts, room = machine.size("e"), machine.size("c")
    chosen = torch.nn.functional.one_hot(choices, experts)  # s b n e
    length, batch, visits, _ = chosen.shape
    line = chosen.permute(1, 0, 2, 3).reshape(batch, length * visits, experts)
    turn = (line.cumsum(1) - 1).reshape(batch, length, visits, experts).permute(1, 0, 2, 3)
    return (
        torch.nn.functional.one_hot(turn.clamp(0, room), room + 1)[..., :room] * chosen[..., None]
    ).double()


def dispatch(machine: Machine, _: Node, x: Tensor, choices: Tensor) -> Tensor:
    return torch.einsum("sbnec,sbh->ecbh", places(machine, choices), x)


def combine(machine: Machine, _: Node, y: Tensor, weights: Tensor, choices: Tensor) -> Tensor:
    return torch.einsum("sbnec,ecbh,sbn->sbh", places(machine, choices), y, weights)


def lookup(machine: Machine, node: Node, table: Tensor, index: Tensor | None = None) -> Tensor:
    return table[: machine.size("s")] if index is None else table[index]


def sum_exp_and_pick(_: Machine, __: Node, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return logits.exp().sum(-1), logits.gather(-1, targets.long()[..., None])[..., 0]


OPERATORS: Mapping[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "rotary": rotary,
    "concatenate": concatenate,
    "gated_silu": lambda _, __, gate, up: torch.nn.functional.silu(gate) * up,
    "gelu": lambda _, __, x: torch.nn.functional.gelu(x),
    "gated_sigmoid": lambda _, __, gate, y: gate.sigmoid()[..., None] * y,
    "attention": attention,
    "route": route,
    "dispatch": dispatch,
    "combine": combine,
    "lookup": lookup,
    "sum_exp_and_pick": sum_exp_and_pick,
    "mean_loss": lambda _, __, sums, picked: (sums.log() - picked).mean(),
}
SPARSE: Mapping[str, tuple[str, Callable[..., Tensor]]] = {
    "dispatch_backward": (
        "sbh",
        lambda m, dy, choices: torch.einsum("sbnec,ecbh->sbh", places(m, choices), dy),
    ),
    "combine_backward": (
        "ecbh",
        lambda m, dy, w, choices: torch.einsum("sbnec,sbh,sbn->ecbh", places(m, choices), dy, w),
    ),
    "combine_weights_backward": (
        "sbn",
        lambda m, y, dy, choices: torch.einsum("sbnec,ecbh,sbh->sbn", places(m, choices), y, dy),
    ),
}


def drawn_and_true(graph: ComputeGraph, leaves: TensorRef) -> dict[str, tuple[Tensor, Tensor]]:
    """By parameter or input its gradient as the graph draws it, and by PyTorch through the forward pass."""
    machine = Machine(graph)
    generator.manual_seed(len(graph.nodes))
    values: Values = {
        TensorRef(n): machine.placeholder(n) for n, node in enumerate(graph.nodes) if node.source is not None
    }
    owners = [values[owner].requires_grad_() for owner in graph.gradients]
    machine.run(values, phase=Phase.FORWARD)
    tangent = values[graph.tangents[leaves]]
    true = torch.autograd.grad(values[leaves], owners, tangent)
    with torch.enable_grad():
        plain = {tensor: value.detach() for tensor, value in values.items()}
        machine.run(plain, phase=Phase.BACKWARD)
    return {
        graph.nodes[owner.node].path: (machine.seen(plain, drawn, flat(graph.result(drawn).dims)), expected)
        for (owner, drawn), expected in zip(graph.gradients.items(), true, strict=True)
    }
