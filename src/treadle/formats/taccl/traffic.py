"""TACCL's algorithms as messages: a send for each of theirs, in the order of the steps."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

from treadle.formats.taccl.reader import TacclFile, read
from treadle.formats.verdict import Terms
from treadle.program.foreign.timed_sends import SendsFrame, TimedSend, program_of_sends
from treadle.program.foreign.traffic import Traffic, even_shards
from treadle.schedules.collective import CollectiveKind


def traffic(data: bytes, terms: Terms) -> Traffic:
    """What the ranks send each other."""
    file = read(data, terms)
    frame, place = _numbered(file)
    held: dict[tuple[int, int], int] = {
        (rank, part.address): 1 for part in file.parts for rank in part.before
    }
    sends = []
    for step, together in groupby(file.sends, key=lambda send: send.step):
        before = dict(held)  # what is sent in a step was there at its beginning
        for send in together:
            here, has = (send.head, send.address), held.get((send.head, send.address), 0)
            amount = before.get((send.tail, send.address), 0)
            adds = frame.kind.reduces and (
                send.reduces if send.reduces is not None else has + amount <= file.n_ranks
            )
            held[here] = has + amount if adds else amount
            sends.append(TimedSend(step, send.tail, send.head, place[send.address], 1, reduces=bool(adds)))
    return program_of_sends(frame, sends)


def _numbered(file: TacclFile) -> tuple[SendsFrame, dict[int, int]]:
    """The collective's frame, and the chunk of each address."""
    kind, n = CollectiveKind(file.kind), file.n_ranks
    if kind in (CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        addresses = sorted({part.address for part in file.parts})
        shard_offset = even_shards(kind, n, len(addresses), file.root)
        frame = SendsFrame(kind, n, len(addresses), shard_offset, file.root)
        return frame, {address: place for place, address in enumerate(addresses)}
    shards: dict[int, set[int]] = defaultdict(set)
    for part in file.parts:
        before, after = min(part.before), min(part.after)
        shard = before if kind is CollectiveKind.ALLGATHER else after
        shards[before * n + after if kind is CollectiveKind.ALLTOALL else shard].add(part.address)
    n_shards = n * n if kind is CollectiveKind.ALLTOALL else n
    per_shard = max(len(addresses) for addresses in shards.values())
    place = {
        address: shard * per_shard + number
        for shard, addresses in shards.items()
        for number, address in enumerate(sorted(addresses))
    }
    offset = range(0, n_shards * per_shard + 1, per_shard)
    return SendsFrame(kind, n, n * per_shard, offset), place
