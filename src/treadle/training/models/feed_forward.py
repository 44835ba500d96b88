"""The feed-forward half of a block: dense, or a router and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.training.models.attention import BlockParts
from treadle.training.models.model_layer import Saved, Weight, Work, WorkKind, product_work


@dataclass(frozen=True)
class Experts:
    """A layer of experts.

    Parameters
    ----------
    experts, top_k : int
        Number of experts, and number that a token visits.
    feed_forward : int
        Inner width of one expert.
    shared_feed_forward : int
        Inner width of all shared experts, which every token visits; 0: none.
    shared_gate : bool
        A gate of the shared experts (Qwen2-MoE): a weight per hidden dimension.
    has_bias : bool
        The router and the routed experts have biases (gpt-oss).
    latent : int
        Width to which tokens are projected before they are routed (Nemotron 3 Super); 0: none.
    """

    experts: int
    top_k: int
    feed_forward: int
    shared_feed_forward: int = 0
    shared_gate: bool = False
    has_bias: bool = False
    latent: int = 0

    def routed_width(self, hidden: int) -> int:
        """Return the elements of a routed token."""
        return self.latent or hidden


def dense_parts(
    hidden: int, inner: int, *, is_gated: bool, has_bias: bool = False, name: str = "", experts: int = 0
) -> BlockParts:
    """Return up, activation and down, for a token; with `experts`, of that many, of which a token visits one.

    Saves, in addition to the input, the activation's input and output, and with a gate also the other factor
    and the product, like PyTorch without fusion.
    """
    columns = inner * (2 if is_gated else 1)
    is_expert, copies = bool(experts), max(experts, 1)
    weights = [
        Weight(f"{name}up", copies * columns * (hidden + has_bias), expert=is_expert),
        Weight(f"{name}down", copies * hidden * inner, expert=is_expert),
    ]
    if has_bias:
        weights.append(Weight(f"{name}down bias", copies * hidden, split=False, expert=is_expert))
    works = (
        product_work(f"{name}up", hidden, columns, copies=copies, expert=is_expert),
        Work(
            f"{name}activation",
            WorkKind.ELEMENTWISE,
            moved_elements=columns + inner,
            moved_backward=2 * columns + inner,
            expert=is_expert,
        ),
        product_work(f"{name}down", inner, hidden, copies=copies, expert=is_expert),
    )
    return BlockParts(tuple(weights), works, (Saved(f"{name}activation", 2 * columns, expert=is_expert),))


def expert_parts(hidden: int, shape: Experts, *, is_gated: bool) -> BlockParts:
    """Return router, shared experts, and experts of which each token visits `top_k`."""
    width = shape.routed_width(hidden)
    router = _uncut_product("router", hidden, shape.experts, shape.experts, has_bias=shape.has_bias)
    if shape.shared_feed_forward:
        router += dense_parts(hidden, shape.shared_feed_forward, is_gated=is_gated, name="shared ")
    if shape.shared_gate:
        router += BlockParts((Weight("shared gate", hidden, split=False),))
    if shape.latent:
        router += _uncut_product("latent", hidden, width, width)
        router += _uncut_product("latent output", width, hidden, width)
    one = dense_parts(
        width,
        shape.feed_forward,
        is_gated=is_gated,
        has_bias=shape.has_bias,
        name="expert ",
        experts=shape.experts,
    )
    works = tuple(
        replace(
            work,
            flops=shape.top_k * work.flops,
            moved_elements=shape.top_k * work.moved_elements,
            moved_backward=None if work.moved_backward is None else shape.top_k * work.moved_backward,
        )
        for work in one.works
    )
    saved = tuple(
        Saved(part.name, shape.top_k * part.elements, expert=True)
        for part in (*one.saved, Saved("expert input", width, expert=True))
    )
    # copies of a token are arranged by expert and added up again; backward also gives gradients of the gates
    copies = (1 + shape.top_k) * width
    routing = Work(
        "routing",
        WorkKind.ELEMENTWISE,
        moved_elements=2 * copies,
        moved_backward=3 * (copies + shape.top_k * width),
        split=False,
    )
    return router + BlockParts(one.weights, (routing, *works), saved)


def _uncut_product(name: str, rows: int, columns: int, saved: int, *, has_bias: bool = False) -> BlockParts:
    """Return a product that tensor parallelism does not split."""
    return BlockParts(
        (Weight(name, (rows + has_bias) * columns, split=False),),
        (product_work(name, rows, columns, split=False),),
        (Saved(name, saved, split=False),),
    )
