"""Executes MSCCL++ plans on integer contributions.

Shares no code with the writer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from treadle.errors import FormatError
from treadle.formats.mscclpp.judge_machine import Machine
from treadle.formats.mscclpp.judge_packets import PacketMachine
from treadle.formats.mscclpp.reader import ExecutionPlan, parse_mscclpp_json


@dataclass(frozen=True)
class PlanInterpretation:
    """What executing a plan showed.

    Parameters
    ----------
    collective : str
    n_ranks, n_operations, n_thread_blocks : int
    violations : tuple of str
        Empty if the plan does what its collective asks, within the executor's limits.
    """

    collective: str
    n_ranks: int
    n_operations: int
    n_thread_blocks: int
    violations: tuple[str, ...]


def interpret_mscclpp_json(text: str, *, root: int = 0, source: str = "MSCCL++ plan") -> PlanInterpretation:
    """Parse and execute an execution plan.

    Parameters
    ----------
    text : str
    root : int
        Rank of the root of broadcast and reduce, which the format does not name.
    source : str
        Name for messages.

    Returns
    -------
    PlanInterpretation
        Violations are: limits exceeded, channels without a counterpart, blocks that wait for ever, signals
        that nobody waits for, races (two moves of the same chunk, one writing, that neither ``nop`` nor
        signals order), a peer's memory touched before the peer is there or after it may have left, a rank
        that may end while a proxy still reads its memory, undefined data read, and wrong results: each output
        chunk must hold every contribution just once.

    Raises
    ------
    FormatError
        If the executor would refuse the text, it is hostile, or the root cannot be.

    Notes
    -----
    The threads of a block run apart: what one move did is known to the next, and to a signal's receiver, only
    after a ``nop``. Relaxed signals tell that a peer is there, nothing about its data. What a proxy (port
    channels) moves is known to be over by whoever waited for its signal, and at home after a ``pwsf``; a
    ``flush`` does nothing, as in the executor. Order is judged by vector clocks over blocks and proxies.

    Packets (protocol LL) tell of themselves alone: whoever reads one waits for it. Each is written once and
    read, to a rank that is known to have begun, and so to be through with the packets of launches before;
    where scratch is double it suffices that this is known in the end.
    """
    plan = parse_mscclpp_json(text, source)
    if not 0 <= root < len(plan.sizes):
        raise FormatError(f"root {root}: expected a rank from 0 to {len(plan.sizes) - 1}", source=source)
    violations = list(plan.violations)
    if not violations:
        violations += _shapes(plan)
    if not violations:
        violations += (PacketMachine if plan.has_packets else Machine)(plan, root).run()
    return PlanInterpretation(
        collective=plan.collective,
        n_ranks=len(plan.sizes),
        n_operations=sum(
            1 + len(operation.inner) for blocks in plan.blocks for block in blocks for operation in block
        ),
        n_thread_blocks=sum(map(len, plan.blocks)),
        violations=tuple(dict.fromkeys(violations)),
    )


def _shapes(plan: ExecutionPlan) -> list[str]:
    """Buffers that do not fit the collective, and channels that only one end has."""
    n, found = len(plan.sizes), []
    inputs, outputs = ({sizes[letter] for sizes in plan.sizes} for letter in "io")
    if len(inputs) > 1 or len(outputs) > 1:
        found.append("ranks differ in their numbers of input or output chunks")
    ratio = {"allgather": (n, 1), "reducescatter": (1, n)}.get(plan.collective, (1, 1))
    for sizes in plan.sizes[:1]:
        if sizes["i"] * ratio[0] != sizes["o"] * ratio[1] or not sizes["i"]:
            found.append(f"{sizes['i']} input and {sizes['o']} output chunks do not fit {plan.collective}")
        if plan.collective == "alltoall" and sizes["i"] % n:
            found.append(f"{sizes['i']} input chunks cannot be divided among {n} ranks")
    for rank, peers in enumerate(plan.peers):
        for kind, ends in peers.items():
            for peer, count in Counter(ends).items():
                other = plan.peers[peer].get(kind, []).count(rank)
                if count != other:
                    found.append(f"{kind} channels {rank}-{peer}: {count} at one end, {other} at the other")
    return found
