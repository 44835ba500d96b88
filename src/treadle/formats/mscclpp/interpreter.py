"""Executes MSCCL++ plans on integer contributions.

Shares no code with the writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from treadle.errors import FormatError
from treadle.formats.mscclpp.interpreter_machine import Machine
from treadle.formats.mscclpp.interpreter_packets import PacketMachine
from treadle.formats.mscclpp.interpreter_slices import Scale, scales
from treadle.formats.mscclpp.reader import ExecutionPlan, parse_mscclpp_json
from treadle.formats.verdict import Check, Terms, Verdict, decoded

_MOST_SLOTS = 256
"""Most slices of a chunk's scratch that are executed."""


@dataclass(frozen=True)
class PlanInterpretation:
    """What executing a plan showed.

    Parameters
    ----------
    collective : str
    n_ranks, n_operations, n_thread_blocks : int
    violations : tuple of str
        Empty if the plan does what its collective asks, within the executor's limits.
    notes : tuple of str
        Limits of the verdict: the largest size that it holds for.
    """

    collective: str
    n_ranks: int
    n_operations: int
    n_thread_blocks: int
    violations: tuple[str, ...]
    notes: tuple[str, ...] = ()


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a plan; FormatError if it is malformed or hostile."""
    text, source = decoded(files[0], terms, "MSCCL++ plan")
    seen = interpret_mscclpp_json(text, root=terms.root, source=source)
    counts = (("plan operation", seen.n_operations), ("thread block", seen.n_thread_blocks))
    return Verdict(Check.EXECUTED, seen.violations, counts, seen.n_ranks, seen.collective, notes=seen.notes)


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

    Packets tell of themselves: whoever reads one waits for its flag, element by element. So a store comes
    after the reads that a packet depends on, across any number of ranks, and may go over what they read; data
    in plain memory are not ordered by packets, which have no fence. Each packet is written once and, if it
    comes from elsewhere, read; to a rank that is known to have begun, and so to be through with the packets
    of launches before; where scratch is double it suffices that this is known in the end.

    Blocks of a group (``tbg_info``) each move their part of a range, in 16 bytes; plans with groups are
    executed with chunks that the groups divide, and with some that they do not.
    """
    plan = parse_mscclpp_json(text, source)
    if not 0 <= root < len(plan.sizes):
        raise FormatError(f"root {root}: expected a rank from 0 to {len(plan.sizes) - 1}", source=source)
    violations, notes = list(plan.violations), list(plan.notes)
    if not violations:
        violations += _shapes(plan)
    if not violations:
        machine = PacketMachine if plan.has_packets else Machine
        for scale in scales(plan):
            violations += machine(plan, root, scale).run()
    if not violations and plan.reuses_scratch:
        notes += _scratch_notes(plan, root)
    return PlanInterpretation(
        collective=plan.collective,
        n_ranks=len(plan.sizes),
        n_operations=sum(1 for _ in plan.operations),
        n_thread_blocks=sum(map(len, plan.blocks)),
        violations=tuple(dict.fromkeys(violations)),
        notes=tuple(notes),
    )


def _scratch_notes(plan: ExecutionPlan, root: int) -> list[str]:
    """Execute pipelines that use their scratch again; the size limit of the verdict where that goes wrong."""
    chunk = plan.shared_bytes
    if plan.max_bytes <= plan.served_bytes:
        return []
    units = {operation.numbers[1] for operation in plan.operations if operation.name == "pipeline"}
    slots = chunk // max(units, default=1)
    has_groups = any(operation.part[1] > 1 for operation in plan.operations)
    is_alike = len(units) == len({sizes["s"] for sizes in plan.sizes}) == 1 and chunk % min(units) == 0
    is_simple = is_alike and slots <= _MOST_SLOTS and not has_groups and not plan.has_packets
    if is_simple and not Machine(plan, root, Scale(slots + 2, slots=slots)).run():
        return []
    return [
        f"verified up to {plan.served_bytes} bytes: beyond, chunks are larger than the {chunk} bytes of "
        "scratch that each has with reuse_resources"
    ]


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
