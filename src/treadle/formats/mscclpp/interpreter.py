"""Executes MSCCL++ plans on integer contributions. Shares no code with the writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from treadle.errors import FormatError
from treadle.formats.mscclpp.interpreter_machine import Machine
from treadle.formats.mscclpp.interpreter_packets import PacketMachine
from treadle.formats.mscclpp.interpreter_slices import Scale, scales
from treadle.formats.mscclpp.reader import ExecutionPlan, parse_mscclpp_json
from treadle.formats.verdict import Check, Terms, Verdict, decoded

_MOST_SLOTS = 256
"""Most slices of a chunk's scratch for which pipelines are executed."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a plan; FormatError if it is malformed or hostile."""
    text, source = decoded(files[0], terms, "MSCCL++ plan")
    return interpret_mscclpp_json(text, root=terms.root, source=source)


def interpret_mscclpp_json(text: str, *, root: int = 0, source: str = "MSCCL++ plan") -> Verdict:
    """Parse and execute an execution plan.

    Parameters
    ----------
    text : str
    root : int
        Root of broadcast and reduce, which the format does not have.
    source : str
        Name for messages.

    Violations are: limits exceeded, channels without a counterpart, blocks that wait for ever, signals for
    which no block waits, conflicts (two moves of the same chunk, one writing, in no order by ``nop`` or
    signals), a peer's memory used before the peer is there or after it may have left, a rank that may end
    while a proxy still reads its memory, undefined data read, and wrong results: each output chunk must have
    every contribution exactly once. Notes are limits of the verdict.

    Raises
    ------
    FormatError
        If the executor would reject the file, it is hostile, or the root is invalid.

    Notes
    -----
    The threads of a block run independently: the effect of a move is visible to the next one, and to a
    signal's receiver, only after a ``nop``. Relaxed signals show that a peer is there, and nothing about its
    data. Moves of a proxy (port channels) are complete at the receiver after a wait for its signal, and at
    the sender after a ``pwsf``; a ``flush`` does nothing, as in the executor. Order is decided by vector
    clocks over blocks and proxies.

    Packets synchronize by themselves: readers wait for the flag of each element. So a store comes after the
    reads that a packet depends on, across any number of ranks, and may overwrite the data that they read;
    packets do not order data in plain memory, because they have no fence. Each packet is written once and, if
    it comes from another rank, read; its writer must know that the receiver has begun, and so has finished
    with the packets of earlier launches. If scratch is double, it suffices that this is known at the end.

    Blocks of a group (``tbg_info``) each move their part of a range, in units of 16 bytes; plans with groups
    are executed with chunks that the groups divide, and with some that they do not.
    """
    plan = parse_mscclpp_json(text, source)
    if not 0 <= root < len(plan.sizes):
        raise FormatError(f"root {root}: expected a rank from 0 to {len(plan.sizes) - 1}", source=source)
    violations, notes = list(plan.violations), list(plan.notes)
    if not violations:
        violations += _shape_faults(plan)
    if not violations:
        machine = PacketMachine if plan.has_packets else Machine
        for scale in scales(plan):
            violations += machine(plan, root, scale).run()
    if not violations and plan.reuses_scratch:
        notes += _scratch_notes(plan, root)
    counts = {
        "plan operation": sum(1 for _ in plan.operations),
        "thread block": sum(map(len, plan.blocks)),
    }
    return Verdict(
        Check.EXECUTED,
        tuple(dict.fromkeys(violations)),
        tuple(counts.items()),
        len(plan.sizes),
        plan.collective,
        notes=tuple(notes),
    )


def _scratch_notes(plan: ExecutionPlan, root: int) -> list[str]:
    """Execute pipelines that reuse their scratch; return the size limit of the verdict if that fails."""
    chunk = plan.shared_bytes
    if plan.max_bytes <= plan.served_bytes:
        return []
    units = {operation.numbers[1] for operation in plan.operations if operation.name == "pipeline"}
    slots = chunk // max(units, default=1)
    has_groups = any(operation.part[1] > 1 for operation in plan.operations)
    is_equal = len(units) == len({sizes["s"] for sizes in plan.sizes}) == 1 and chunk % min(units) == 0
    is_simple = is_equal and slots <= _MOST_SLOTS and not has_groups and not plan.has_packets
    if is_simple and not Machine(plan, root, Scale(slots + 2, slots=slots)).run():
        return []
    return [
        f"verified up to {plan.served_bytes} bytes: beyond, chunks are larger than the {chunk} bytes of "
        "scratch that each has with reuse_resources"
    ]


def _shape_faults(plan: ExecutionPlan) -> list[str]:
    """Return buffers that do not fit the collective, and channels that exist only at one end."""
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
