"""Carries out TACCL's algorithms on sets of contributions.

Shares no code with what makes programs of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from treadle.formats.taccl.reader import TacclFile, read
from treadle.formats.verdict import Check, Terms, Verdict, listed

MAX_VIOLATIONS = 1000
_State = dict[tuple[int, int], frozenset[int]]
"""Of a rank and an address: the numbers of the chunks that what is there is the sum of."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Follow an algorithm; FormatError if it is malformed or hostile."""
    file = read(files[0], terms)
    faults = list(_followed(file))
    counts = (("send", len(file.sends)), ("chunk", len({part.address for part in file.parts})))
    return Verdict(Check.EXECUTED, listed(faults, MAX_VIOLATIONS), counts, file.n_ranks, file.kind)


def _followed(file: TacclFile) -> Iterator[str]:
    state: _State = {}
    for number, part in enumerate(file.parts):
        for rank in part.before:
            here = (rank, part.address)
            state[here] = state.get(here, frozenset()) | {number}
    for step, sends in groupby(file.sends, key=lambda send: send.step):
        before = dict(state)  # what is sent in a step was there at its beginning
        for send in sends:
            found = before.get((send.tail, send.address))
            name = f"step {step}: address {send.address} from {send.tail} to {send.head}"
            if not found:
                yield f"{name}: nothing is there to be sent"
                continue
            here = (send.head, send.address)
            has = state.get(here, frozenset())
            if send.reduces or (send.reduces is None and not found & has):
                if found & has:
                    yield f"{name}: adds what is in the sum already"
                state[here] = has | found
            else:
                if has - found:
                    yield f"{name}: overwrites contributions"
                state[here] = found
    wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
    for number, part in enumerate(file.parts):
        for rank in part.after:
            wanted[rank, part.address].add(number)
    for (rank, address), numbers in sorted(wanted.items()):
        found = state.get((rank, address), frozenset())
        if found != numbers:
            yield f"rank {rank} ends with {len(found)} of {len(numbers)} contributions to address {address}"
