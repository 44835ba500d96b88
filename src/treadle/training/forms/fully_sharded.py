"""Fully sharded weights: when they are gathered (Zhao et al. 2023, PyTorch FSDP; ZeRO-3, or ZeRO-2).

Layers are the units. Weights are gathered for a layer's turn, up to `prefetch` turns ahead: the gather for
the next turn starts when the turn before this one has ended, so that with prefetch 1 it runs beside this
turn. After a turn they are dropped, if they are gathered anew for the backward pass, unless the same layer
has the next turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """A layer's pass with a micro-batch."""

    layer: int
    is_forward: bool
    micro_batch: int


def turns_to_gather_for(turns: Sequence[Turn], *, reshards: bool, kept: frozenset[int]) -> list[int]:
    """Places of the turns for which weights must be gathered.

    Parameters
    ----------
    turns : sequence of Turn
        All of a rank, in order.
    reshards : bool
        Weights are dropped after each turn; else they stay once they are there.
    kept : frozenset of int
        Layers whose weights stay in any case: those that another layer shares.
    """
    found: list[int] = []
    there: set[int] = set()
    for place, turn in enumerate(turns):
        if turn.layer not in there:
            found.append(place)
            there.add(turn.layer)
        stays = turns[place + 1].layer == turn.layer if place + 1 < len(turns) else True
        if reshards and turn.layer not in kept and not stays:
            there.discard(turn.layer)
    return found
