"""TACCL's algorithms read whole, refused on either side of each limit, and followed when they go wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samples.foreign.foreign_files import Json, as_bytes, taccl
from shortcuts.json_edits import at
from treadle.errors import FormatError
from treadle.formats.taccl import interpreter as judge_module
from treadle.formats.taccl import reader
from treadle.formats.taccl.interpreter import interpret
from treadle.formats.taccl.reader import TacclPart, TacclSend, parse_taccl_json
from treadle.formats.taccl.traffic import traffic
from treadle.formats.verdict import Check, Terms
from treadle.program.program import OperationKind


def chunk(before: list[int], after: list[int], address: int) -> Json:
    """Where a chunk is, must get, and its address."""
    return {"pre": before, "post": after, "addr": address}


def broadcast() -> Json:
    """Two chunks from rank 2 of three; the last sends say what they do and do not."""
    chunks = [chunk([2], [0, 1, 2], 7), chunk([2], [0, 1, 2], 3)]
    steps: list[list[list[Any]]] = [
        [[7, 2, 0], [3, 2, 1, 9, 0, "r"]],
        [[7, 0, 1, 5], [3, 1, 0, 4, 4, 8]],
    ]
    return taccl("Broadcast", 3, chunks, steps)


def test_every_part_is_read() -> None:
    file = parse_taccl_json(json.dumps({**broadcast(), "name": "n" * 201}), "file")
    assert (file.name, file.kind, file.root, file.n_ranks) == ("n" * 200, "broadcast", 2, 3)
    everyone = frozenset({0, 1, 2})
    assert file.parts == (
        TacclPart(frozenset({2}), everyone, 7),
        TacclPart(frozenset({2}), everyone, 3),
    )
    assert file.sends == (
        TacclSend(0, 7, 2, 0, None),
        TacclSend(0, 3, 2, 1, False),
        TacclSend(1, 7, 0, 1, None),
        TacclSend(1, 3, 1, 0, False),
    )
    assert parse_taccl_json(json.dumps({**broadcast(), "name": None}), "file").name == "None"
    nameless = broadcast()
    del nameless["name"]
    assert parse_taccl_json(json.dumps(nameless), "file").name == ""


@pytest.mark.parametrize(
    ("extra", "reduces"), [([], None), ([1, 2], None), ([1, 2, "rrc"], True), ([1, 2, "r"], False)]
)
def test_the_sixth_of_a_send_says_whether_it_reduces(extra: list[Any], reduces: bool | None) -> None:
    sample = broadcast()
    sample["steps"][0]["sends"][0] = [7, 2, 0, *extra]
    assert parse_taccl_json(json.dumps(sample), "file").sends[0].reduces is reduces


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("collective nodes", 1, "collective: nodes: 1: expected an integer from 2 to 4096"),
        ("collective nodes", 4097, "collective: nodes: 4097: expected an integer from 2 to 4096"),
        ("collective chunks 1", 7, "chunk 1: pre: expected a list"),
        ("collective chunks 0 post", None, "chunk 0: post: expected a list"),
        ("collective chunks 0 pre", [-1], "chunk 0: -1: expected an integer from 0 to 2"),
        ("collective chunks 0 post", [0, 1, 3], "chunk 0: 3: expected an integer from 0 to 2"),
        ("collective chunks 0 addr", -1, "chunk 0: -1: expected an integer from 0 to 2147483648"),
        ("collective chunks 0 addr", 2**31 + 1, "chunk 0: 2147483649: expected an integer from 0 to"),
        ("collective chunks 0 addr", True, "chunk 0: True: expected an integer"),
        ("steps 1", {}, "step 1: sends: expected a list"),
        ("steps 1 sends 0", [7, 0], "step 1: [7, 0]: expected [address, source, target, ...]"),
        ("steps 1 sends 0", [7, 0, 1, 0, 0, "r", 0], "expected [address, source, target, ...]"),
        ("steps 1 sends 0", {"a": 1, "b": 2, "c": 3}, "expected [address, source, target, ...]"),
        ("steps 1 sends 0", [-1, 0, 1], "step 1: -1: expected an integer from 0 to 2147483648"),
        ("steps 1 sends 0", [7, 3, 1], "step 1: 3: expected an integer from 0 to 2"),
        ("steps 1 sends 0", [7, 0, 3], "step 1: 3: expected an integer from 0 to 2"),
        ("steps 1 sends 0", [7, -1, 0], "step 1: -1: expected an integer from 0 to 2"),
        ("steps 1 sends 0", [4, 0, 1], "[4, 0, 1]: no chunk has that address, or the ends are one"),
        ("steps 1 sends 0", [7, 1, 1], "[7, 1, 1]: no chunk has that address, or the ends are one"),
        ("sccl_type", 7, "file: sccl_type: expected a str"),
        ("sccl_type", "x" * 50, f"sccl_type '{'x' * 40}': expected 'algorithm'"),
    ],
)
def test_one_fault_is_refused_with_its_place(path: str, value: object, message: str) -> None:
    sample = broadcast()
    at(path, value)(sample)
    with pytest.raises(FormatError) as caught:
        parse_taccl_json(json.dumps(sample), "file")
    assert str(caught.value).startswith("file: ")
    assert message in str(caught.value)


def pairs(n: int, *, times: int = 1, own: bool = True) -> list[Json]:
    """Chunks of an all-to-all of n, with or without what stays."""
    ends = [(one, other) for one in range(n) for other in range(n) if own or one != other]
    return [
        chunk([one], [other], place * times + turn)
        for place, (one, other) in enumerate(ends)
        for turn in range(times)
    ]


def shares(n: int, addresses: dict[int, list[int]]) -> list[Json]:
    """Contributions of n ranks to sums that some ranks must get."""
    return [chunk([rank], after, address) for address, after in addresses.items() for rank in range(n)]


EVERYONE = [0, 1, 2]


@pytest.mark.parametrize(
    ("chunks", "kind", "root"),
    [
        ([chunk([1], EVERYONE, 0), chunk([1], EVERYONE, 1)], "broadcast", 1),
        ([chunk([rank], EVERYONE, rank) for rank in range(3)], "allgather", -1),
        ([chunk([place % 3], EVERYONE, place) for place in range(6)], "allgather", -1),
        (pairs(3), "alltoall", -1),
        (pairs(3, times=2, own=False), "alltoall", -1),
        (shares(3, {4: EVERYONE, 9: EVERYONE}), "allreduce", -1),
        (shares(3, {4: [2], 9: [2]}), "reduce", 2),
        (shares(3, {4: [2], 9: [0], 1: [1]}), "reduce-scatter", -1),
    ],
)
def test_chunks_tell_the_collective(chunks: list[Json], kind: str, root: int) -> None:
    file = parse_taccl_json(json.dumps(taccl("x", 3, chunks, [])), "file")
    assert (file.kind, file.root) == (kind, root)


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk([0], EVERYONE, 0), chunk([1], EVERYONE, 1)],  # rank 2 has nothing
        [chunk([rank], EVERYONE, 3 * rank) for rank in (0, 1, 2)] + [chunk([0], EVERYONE, 1)],
        [chunk([rank], [0, 1], rank) for rank in range(3)],
        [*pairs(3), chunk([0], [1], 99)],  # one pair has two
        pairs(3, own=False)[1:],
        [chunk([0, 1], EVERYONE, 0)],
        [chunk([], EVERYONE, 0)],
        shares(3, {4: EVERYONE, 9: [1]}),
        shares(3, {4: [0, 1], 9: [0, 1]}),
        shares(3, {4: [2], 9: [0]}),  # no sum ends at rank 1
        shares(3, {4: [2], 9: [0], 1: [1], 5: [1]}),
        shares(3, {4: [2], 9: [2]})[1:],
        [*shares(3, {4: EVERYONE}), chunk([0], EVERYONE, 4)],
        [chunk([0], [1], 4), chunk([1], [2], 4), chunk([2], [0], 4)],
    ],
)
def test_other_chunks_are_no_collective(chunks: list[Json]) -> None:
    with pytest.raises(FormatError, match="its chunks begin and end as in no collective that is known here"):
        parse_taccl_json(json.dumps(taccl("x", 3, chunks, [])), "file")


def test_limits_of_texts_chunks_places_and_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(broadcast())
    for name, value, message in (
        ("MAX_TEXT", len(text), f"{len(text)} characters, expected at most {len(text) - 1}"),
        ("MAX_SENDS", 4, "more than 3 sends"),
        # of two chunks, each at one rank before and three after
        ("MAX_CHUNKS", 8, "more than 7 places of chunks"),
    ):
        monkeypatch.setattr(reader, name, value)
        assert len(parse_taccl_json(text, "file").sends) == 4
        monkeypatch.setattr(reader, name, value - 1)
        with pytest.raises(FormatError, match=message):
            parse_taccl_json(text, "file")
        monkeypatch.undo()
    monkeypatch.setattr(reader, "MAX_CHUNKS", 1)
    with pytest.raises(FormatError, match="2 chunks, expected 1 to 1"):
        parse_taccl_json(text, "file")
    assert (reader.MAX_TEXT, reader.MAX_CHUNKS) == (134217728, 1)
    monkeypatch.undo()
    assert (reader.MAX_SENDS, reader.MAX_CHUNKS) == (1000000, 4194304)


def test_counts_and_faults_of_a_broadcast() -> None:
    found = interpret([as_bytes(broadcast())], Terms())
    assert (found.check, found.violations) == (Check.EXECUTED, ())
    assert (found.counts, found.n_ranks, found.collective) == ((("send", 4), ("chunk", 2)), 3, "broadcast")
    early = broadcast()
    early["steps"] = [{"sends": early["steps"][0]["sends"] + early["steps"][1]["sends"]}]
    assert interpret([as_bytes(early)], Terms()).violations == (
        "step 0: address 7 from 0 to 1: nothing is there to be sent",
        "step 0: address 3 from 1 to 0: nothing is there to be sent",
        "rank 0 ends with 0 of 1 contributions to address 3",
        "rank 1 ends with 0 of 1 contributions to address 7",
    )


def test_faults_of_sums_are_told() -> None:
    """Of three contributions to the sum at rank 2, rank 0's comes twice or is overwritten."""
    chunks = shares(3, {6: [2]})
    word = "step 2: address 6 from 0 to 2"

    def faults(last: list[Any]) -> tuple[str, ...]:
        steps: list[list[list[Any]]] = [[[6, 0, 2]], [[6, 1, 2, 0, 0, "rrc"]], [last]]
        return interpret([as_bytes(taccl("x", 3, chunks, steps))], Terms()).violations

    assert faults([6, 0, 1]) == ()
    assert faults([6, 0, 2, 0, 0, "rrs"]) == (f"{word}: adds what is in the sum already",)
    # without a word, what is there already is replaced
    assert faults([6, 0, 2]) == (
        f"{word}: overwrites contributions",
        "rank 2 ends with 1 of 3 contributions to address 6",
    )


def test_a_thousand_faults_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge_module.MAX_VIOLATIONS == 1000
    monkeypatch.setattr(judge_module, "MAX_VIOLATIONS", 3)
    sample = broadcast()
    sample["steps"] = []
    assert interpret([as_bytes(sample)], Terms()).violations == (
        "rank 0 ends with 0 of 1 contributions to address 3",
        "rank 0 ends with 0 of 1 contributions to address 7",
        "rank 1 ends with 0 of 1 contributions to address 3",
        "and 1 more",
    )
    sample["steps"] = [{"sends": [[7, 2, 0]]}]
    found = interpret([as_bytes(sample)], Terms()).violations
    assert len(found) == 3
    assert not any("more" in line for line in found)


def sent(sample: Json) -> list[tuple[int, ...]]:
    """(step, sender, receiver, chunk, whether it is added) of the messages of an algorithm."""
    program = traffic(as_bytes(sample), Terms()).program
    kinds = {OperationKind.RECEIVE: 0, OperationKind.RECEIVE_REDUCE: 1}
    columns = (program.operation_kind, program.step, program.peer, program.first)
    rows = [
        (rank, [int(column[place]) for column in columns])
        for rank in range(program.n_ranks)
        for place in program.operations(rank)
    ]
    return sorted(
        (step, peer, rank, first, kinds[OperationKind(kind)])
        for rank, (kind, step, peer, first) in rows
        if kind in kinds
    )


def test_messages_of_sums_that_do_not_say_what_they_do() -> None:
    """SCCL's sends add while the sum has contributions of at most all ranks, and replace after that."""
    chunks = shares(3, {8: EVERYONE, 5: EVERYONE})
    steps: list[list[list[Any]]] = [
        [[8, 0, 1], [5, 1, 2]],
        [[8, 1, 2]],
        [[8, 2, 0], [8, 2, 1]],
        [[5, 0, 1], [5, 2, 0, 0, 0, "rrc"]],
    ]
    # addresses 5 and 8 are chunks 0 and 1; the sum of three replaces rank 0's own and the two of rank 1
    assert sent(taccl("x", 3, chunks, steps)) == [
        (0, 0, 1, 1, 1),
        (0, 1, 2, 0, 1),
        (1, 1, 2, 1, 1),
        (2, 2, 0, 1, 0),
        (2, 2, 1, 1, 0),
        (3, 0, 1, 0, 1),
        (3, 2, 0, 0, 1),
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_sent_in_a_step_was_there_before_it(order: int) -> None:
    """Rank 0's own is added at 1, also where 0 gets the sum of two in the same step, before or after it."""
    together = [[5, 2, 0, 0, 0, "rrc"], [5, 0, 1]][::order]
    steps: list[list[list[Any]]] = [[[5, 1, 2]], together]
    assert sent(taccl("x", 3, shares(3, {5: EVERYONE}), steps)) == [
        (0, 1, 2, 0, 1),
        (1, 0, 1, 0, 1),
        (1, 2, 0, 0, 1),
    ]


@pytest.mark.parametrize(
    ("chunks", "send", "offset", "first"),
    [
        # rank 1's addresses 1 and 8 are chunks 2 and 3
        ([chunk([place % 3], EVERYONE, (0, 8, 2, 5, 1, 4)[place]) for place in range(6)], [8, 1, 0], 2, 3),
        # of shard (2, 1), number 7 of nine
        (pairs(3, times=2), [15, 2, 1], 2, 15),
        # address 9 is that of rank 0's sum
        (shares(3, {4: [2], 9: [0], 1: [1]}), [9, 2, 0], 1, 0),
    ],
)
def test_chunks_have_the_place_of_their_shard(
    chunks: list[Json], send: list[int], offset: int, first: int
) -> None:
    sample = taccl("x", 3, chunks, [[send]])
    program = traffic(as_bytes(sample), Terms()).program
    assert np_list(program.shard_offset) == list(range(0, offset * len(program.shard_offset), offset))
    assert program.n_chunks == 3 * offset
    assert [one[3] for one in sent(sample)] == [first]


def np_list(values: Any) -> list[int]:
    """Plain integers."""
    return [int(value) for value in values]


def test_shards_of_sums_are_even_and_a_roots_are_its_own() -> None:
    """Four chunks of three ranks begin at 0, 4/3, 8/3; those of a root's follow on all before it."""
    sums = {8: EVERYONE, 5: EVERYONE, 6: EVERYONE, 2: EVERYONE}
    even = traffic(as_bytes(taccl("x", 3, shares(3, sums), [])), Terms()).program
    assert (even.n_chunks, np_list(even.shard_offset), even.root) == (4, [0, 1, 2, 4], -1)
    to_one = traffic(as_bytes(taccl("x", 3, shares(3, {8: [1], 5: [1]}), [])), Terms()).program
    assert (to_one.n_chunks, np_list(to_one.shard_offset), to_one.root) == (2, [0, 0, 2, 2], 1)
