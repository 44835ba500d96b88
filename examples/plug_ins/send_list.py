"""A plan as a list of what every rank sends: one line for each operation."""

from collections import deque

from treadle import Format
from treadle.errors import FormatError, ScheduleError
from treadle.formats.file_arguments import check_equal_shards
from treadle.formats.loading import Loading
from treadle.formats.request import Written
from treadle.formats.verdict import Check, Verdict, decoded
from treadle.program.program import OperationKind

NAMES = {OperationKind.SEND: "send", OperationKind.RECEIVE: "receive"}


def write(request):
    """The lines of all ranks, in the order in which each rank goes through its own."""
    program = request.program(merge=True)
    if program.kind != "allgather":
        raise ScheduleError(f"send-list: holds allgathers, no {program.kind}")
    check_equal_shards("send-list", program)
    lines = [f"sends {program.n_ranks} {program.n_chunks}"]
    for rank in range(program.n_ranks):
        for number in program.operations(rank):
            word = NAMES.get(int(program.operation_kind[number]))
            numbers = [rank, *(int(row[number]) for row in (program.peer, program.first, program.count))]
            if word:  # a copy within a rank brings it nothing that it did not have
                lines.append(f"{word} {' '.join(map(str, numbers))}")
    return Written((("", "\n".join([*lines, "end", ""]).encode()),), program)


def read(data, terms):
    """Ranks, chunks, and for each rank its lines as (word, peer, first, count)."""
    text, source = decoded(data, terms, "send list")
    lines = [line.split() for line in text.splitlines()]
    try:
        (word, ranks, chunks), *body, end = lines
        if word != "sends" or end != ["end"] or not 1 <= int(ranks) <= 4096 or not 1 <= int(chunks) <= 10**6:
            raise ValueError("expected 'sends RANKS CHUNKS', and 'end'")
        found = [deque() for _ in range(int(ranks))]
        for word, rank, *numbers in body:
            peer, first, count = map(int, numbers)
            if word not in ("send", "receive") or not (
                0 <= int(rank) < len(found) and 0 <= peer < len(found)
            ):
                raise ValueError(f"{word} {rank} {peer}: expected send or receive, and ranks")
            if not 0 <= first < first + count <= int(chunks):
                raise ValueError(f"chunks {first} to {first + count}: expected some of {chunks}")
            found[int(rank)].append((word, peer, first, count))
    except ValueError as error:
        raise FormatError(f"{error}"[:200], source=source) from None
    return int(chunks), found


def judge(files, terms):
    """Carry out the lines: whoever sends must hold the chunks, and in the end all ranks hold all of them."""
    n_chunks, ranks = read(files[0], terms)
    n, lines = len(ranks), sum(map(len, ranks))
    held = [{chunk for chunk in range(n_chunks) if chunk * n // n_chunks == rank} for rank in range(n)]
    flying, faults, moved = {}, [], True
    while moved:
        moved = False
        for rank, waiting in enumerate(ranks):
            while waiting:
                word, peer, first, count = waiting[0]
                chunks = range(first, first + count)
                if word == "send":
                    if not held[rank].issuperset(chunks):
                        faults.append(
                            f"rank {rank} sends chunks {first} to {first + count - 1} without having them"
                        )
                    flying.setdefault((rank, peer), deque()).append(chunks)
                elif not flying.get((peer, rank)):
                    break
                elif flying[peer, rank].popleft() != chunks:
                    faults.append(f"rank {rank} receives other chunks than rank {peer} sends")
                else:
                    held[rank].update(chunks)
                waiting.popleft()
                moved = True
    faults += [f"rank {rank} waits for ever" for rank in range(n) if ranks[rank]]
    faults += ["a message is never received" for sent in flying.values() if sent]
    faults += [f"rank {rank} lacks chunks in the end" for rank in range(n) if len(held[rank]) < n_chunks]
    return Verdict(Check.EXECUTED, tuple(faults), (("line", lines),), n, "allgather")


def load(request, _written, _verdict):
    """What a runtime needs: here there is none."""
    return Loading("nothing yet", (), f"read {request.path}", "everything")


FORMAT = Format(
    name="send-list",
    title="Lists of sends",
    extension=".sends",
    begins="sends ",
    check=Check.EXECUTED,
    options=frozenset({"instances"}),
    write=write,
    read=read,
    judge=judge,
    load=load,
)
