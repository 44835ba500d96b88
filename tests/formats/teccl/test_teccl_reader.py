"""TE-CCL's schedules read whole, refused on either side of each limit, and followed when they go wrong."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from samples.foreign.foreign_files import Json, as_bytes, teccl
from treadle.errors import FormatError
from treadle.formats.teccl import interpreter as judge_module
from treadle.formats.teccl import reader
from treadle.formats.teccl import traffic as traffic_module
from treadle.formats.teccl.interpreter import interpret
from treadle.formats.teccl.reader import TecclDemand, TecclFile, TecclFlow, TecclHop, parse_teccl_json
from treadle.formats.teccl.traffic import traffic
from treadle.formats.verdict import Check, Terms

ONE = Fraction(1)


def flow(chunk: int, source: int, hop: str) -> str:
    """A flow's sentence."""
    return f"Chunk {chunk} from {source} traveled over {hop}"


def demand(target: int, chunk: int, source: int, epoch: int = 3) -> str:
    """A demand's key."""
    return f"Demand at {target} for chunk {chunk} from {source} met by epoch {epoch}"


def gathered() -> Json:
    """GPUs 3, 5 and 9 with two chunks each, numbered in no order; 9 passes on what 5 has."""
    flows = [
        *(flow(chunk, 5, f"9->3 in epoch {4 + chunk}") for chunk in (0, 2)),
        *(flow(chunk, 5, f"5->9 in epoch {chunk} via switches 70 -> 71") for chunk in (0, 2)),
        *(flow(chunk, 9, f"9->{end} in epoch 1") for chunk in (8, 6) for end in (3, 5)),
        *(flow(chunk, 3, f"3->{end} in epoch 2 via switches 7") for chunk in (0, 1) for end in (9, 5)),
    ]
    return teccl(flows, {})


def exchanged(**changes: list[object]) -> Json:
    """An all-to-all of GPUs 2 and 4, where a third goes one way and the rest another."""
    routes = {
        "there": [
            [[0, "2->4 with volume 0.333333 in epoch 1"]],
            ["2->4 with volume 0.666667 in epoch 0 via switches 8"],
        ],
        "back": ["4->2 with volume 1e0 in epoch 12"],
        **changes,
    }
    flows = [flow(0, 2, "2->4 with volume 1 in epoch 1"), flow(5, 4, "4->2 with volume 1 in epoch 12")]
    paths = {demand(4, 0, 2, -1): routes["there"], demand(2, 5, 4): routes["back"]}
    return teccl(flows, paths)


def parsed(sample: object) -> TecclFile:
    """A schedule as read."""
    return parse_teccl_json(json.dumps(sample), "file")


def test_every_part_of_an_allgather_is_read() -> None:
    sample = gathered()
    key = demand(3, 0, 5)
    file = parsed(sample)
    assert (file.is_alltoall, file.gpus, file.demands, file.units) == (False, (3, 5, 9), (), 1)
    assert file.flows[1:4] == (
        TecclFlow(2, 5, TecclHop(9, 3, 6, (), ONE)),
        TecclFlow(0, 5, TecclHop(5, 9, 0, ("70", "71"), ONE)),
        TecclFlow(2, 5, TecclHop(5, 9, 2, ("70", "71"), ONE)),
    )
    assert file.flows[-1] == TecclFlow(1, 3, TecclHop(3, 5, 2, ("7",), ONE))
    # twelve demands are those of six chunks that come to two others each; their paths are left out
    chunks = [(5, 0), (5, 2), (9, 8), (9, 6), (3, 0), (3, 1)]
    keys = [demand(end, chunk, gpu) for gpu, chunk in chunks for end in (3, 5, 9) if end != gpu]
    sample["8-Chunk paths"] = {one: [] for one in keys}
    read = parsed(sample).demands
    assert len(read) == 12
    assert read[keys.index(key)] == TecclDemand(0, 5, 3, ())
    for changed in (keys[1:], [*keys, demand(3, 7, 5)]):
        sample["8-Chunk paths"] = {one: [] for one in changed}
        with pytest.raises(FormatError, match="its demands are those of no allgather"):
            parsed(sample)


def test_every_part_of_an_exchange_is_read() -> None:
    file = parsed(exchanged())
    assert (file.is_alltoall, file.gpus, file.flows) == (True, (2, 4), ())
    assert file.demands == (
        TecclDemand(
            0,
            2,
            4,
            (
                (TecclHop(2, 4, 1, (), Fraction(333333, 10**6)),),
                (TecclHop(2, 4, 0, ("8",), Fraction(666667, 10**6)),),
            ),
        ),
        TecclDemand(5, 4, 2, ((TecclHop(4, 2, 12, (), ONE),),)),
    )
    assert file.units == 3


@pytest.mark.parametrize(
    ("volumes", "units"),
    [
        (["0.5", "0.5"], 2),
        (["0.25", "0.75"], 4),
        (["0.5", "0.166667", "0.333333"], 6),
        (["0.015385", "0.984615"], 1000),  # a 65th is one too fine
        (["0.015625", "0.984375"], 64),
        (["0.50009", "0.49991"], 2),
        (["0.50011", "0.49989"], 1000),
        # the denominators 8, 5, 25 have 200, with 7 it is too many
        (["0.125", "0.6", "0.04"], 200),
        (["0.125", "0.6", "0.04", "0.142857"], 1000),
    ],
)
def test_units_that_all_volumes_are_whole_numbers_of(volumes: list[str], units: int) -> None:
    there: list[object] = [f"2->4 with volume {volume} in epoch 0" for volume in volumes]
    assert parsed(exchanged(there=there)).units == units


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ([], "expected an object"),
        ({"7-Flows": {}}, "'7-Flows': expected a list"),
        ({"7-Flows": [], "8-Chunk paths": []}, "'8-Chunk paths': expected a dict"),
        ({"7-Flow": []}, "lacks its flows (a key such as 7-Flows)"),
        ({"7-FLOWS": []}, "0 GPUs, expected 2 to 4096"),
        ({"flows": [flow(0, 1, "1->1 in epoch 0")]}, "1 GPUs, expected 2 to 4096"),
        ({"flows": [flow(0, 1, "1->2 in epoch 0 via switches 3->")]}, "expected 'Chunk C from S"),
        ({"flows": [flow(0, 1, "1->2 in epoch 12345678901")]}, "expected 'Chunk C from S"),
        ({"flows": [flow(0, 12345678, "1->2 in epoch 0")]}, "expected 'Chunk C from S"),
        ({"flows": [flow(0, 1, "2->1 in epoch 0")]}, "node 2 is passed and has no chunk of its own"),
        (exchanged(back=[]) | {"8-Chunk paths": {"Demand at 1": []}}, "path 'Demand at 1': expected 'Demand"),
        (exchanged() | {"8-Chunk paths": {demand(4, 0, 2): {}}}, "met by epoch K' and a list"),
        (exchanged() | {"8-Chunk paths": {}}, "an all-to-all lacks its paths"),
        (exchanged(back=[[]]), "a path without hops"),
        (exchanged(back=[7]), "hop '7': expected 'A->B in epoch K'"),
        (exchanged(back=[[[0, 1, 2]]]), "hop '[0, 1, 2]': expected 'A->B in epoch K'"),
        (exchanged(back=["4->2 with volume e in epoch 1"]), "volume 'e': expected a number"),
        (exchanged(back=["4->2 with volume 10001 in epoch 1"]), "volume 10001: expected 0 to 10000"),
        (exchanged(back=["4->2 with volume -0.1 in epoch 1"]), "volume -0.1: expected 0 to 10000"),
    ],
)
def test_one_fault_is_refused(sample: object, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(sample)
    assert str(caught.value).startswith("file: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("volume", ["0", "10000", "1E-7"])
def test_volumes_at_the_limits_are_read(volume: str) -> None:
    (path,) = parsed(exchanged(back=[f"4->2 with volume {volume} in epoch 1"])).demands[1].paths
    assert path[0].volume == round(float(volume))


def test_limits_of_texts_hops_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (reader.MAX_TEXT, reader.MAX_HOPS, reader.MAX_UNITS) == (268435456, 1000000, 1000)
    text = json.dumps(exchanged())
    monkeypatch.setattr(reader, "MAX_TEXT", len(text))
    monkeypatch.setattr(reader, "MAX_HOPS", 3)
    assert len(parse_teccl_json(text, "file").demands) == 2
    monkeypatch.setattr(reader, "MAX_HOPS", 2)
    with pytest.raises(FormatError, match="more than 2 hops"):
        parse_teccl_json(text, "file")
    monkeypatch.setattr(reader, "MAX_HOPS", 1)
    with pytest.raises(FormatError, match="more than 1 flows or paths"):
        parse_teccl_json(text, "file")
    gather = json.dumps(gathered() | {"8-Chunk paths": dict.fromkeys(("a", "b"), 0), "7-Flows": []})
    with pytest.raises(FormatError, match="more than 1 flows or paths"):
        parse_teccl_json(gather, "file")
    monkeypatch.setattr(reader, "MAX_TEXT", len(text) - 1)
    with pytest.raises(FormatError, match=f"{len(text)} characters, expected at most {len(text) - 1}"):
        parse_teccl_json(text, "file")
    monkeypatch.undo()
    for count in (4096, 4097):
        ring = [flow(0, gpu, f"{gpu}->{(gpu + 1) % count} in epoch 0") for gpu in range(count)]
        if count == 4096:
            assert len(parsed(teccl(ring, {})).gpus) == count
        else:
            with pytest.raises(FormatError, match="4097 GPUs, expected 2 to 4096"):
                parsed(teccl(ring, {}))


def faults(sample: Json) -> tuple[str, ...]:
    """What the judge finds."""
    return interpret([as_bytes(sample)], Terms()).violations


def test_sound_ones_are_counted() -> None:
    found = interpret([as_bytes(gathered())], Terms())
    assert (found.check, found.violations, found.counts) == (Check.EXECUTED, (), (("hop", 12),))
    assert (found.n_ranks, found.collective) == (3, "allgather")
    found = interpret([as_bytes(exchanged())], Terms())
    assert (found.violations, found.counts, found.n_ranks) == ((), (("hop", 3),), 2)
    assert found.collective == "alltoall"


def test_faults_of_an_allgather_are_told() -> None:
    sample = gathered()
    sample["7-Flows"][0] = flow(0, 5, "9->3 in epoch 0")
    assert faults(sample) == ("GPU 9 sends chunk 0 of 5 in epoch 0 without having it",)
    sample["7-Flows"][0] = flow(0, 5, "9->3 in epoch 1")
    assert faults(sample) == ()
    sample["7-Flows"][0] = flow(0, 5, "5->5 in epoch 0")
    assert faults(sample) == (
        "GPU 5 sends chunk 0 of 5 to itself",
        "chunk 0 of GPU 5 never comes to 1 GPUs, first 3",
    )
    sample = gathered()
    sample["7-Flows"] = [one for one in sample["7-Flows"] if "Chunk 6" not in one]
    assert faults(sample) == ("GPUs have 1 to 2 chunks, expected as many each",)
    sample["7-Flows"] = [one for one in sample["7-Flows"] if "Chunk 1 from 3 traveled over 3->9" not in one]
    assert faults(sample)[1:] == ("chunk 1 of GPU 3 never comes to 1 GPUs, first 9",)
    # what came a second time, later, was there since the first
    sample = gathered()
    sample["7-Flows"].append(flow(0, 5, "5->9 in epoch 4"))
    assert faults(sample) == ()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ([["4->3 with volume 1 in epoch 1"], ["2->2 with volume 0 in epoch 1"]], ["4 to 3", "2 to 2"]),
        ([["4->2 with volume 0.9998 in epoch 1"]], ["its paths carry 0.9998 of it"]),
        ([["4->2 with volume 0.9999 in epoch 1"]], []),
        ([["4->2 with volume 1.0002 in epoch 1"]], ["its paths carry 1.0002 of it"]),
        # two paths may be off by two of its tolerances
        ([["4->2 with volume 0.4999 in epoch 1"]] * 2, []),
        ([["4->2 with volume 0.49985 in epoch 1"]] * 2, ["its paths carry 0.9997 of it"]),
        ([["4->4 with volume 1 in epoch 1", "4->2 with volume 1 in epoch 2"]], []),
        ([["4->4 with volume 1 in epoch 1", "4->2 with volume 1 in epoch 1"]], ["4->2 in epoch 1 does not"]),
        ([["4->4 with volume 1 in epoch 1", "4->2 with volume 0.9999 in epoch 2"]], []),
        ([["4->4 with volume 1 in epoch 1", "4->2 with volume 1.0002 in epoch 2"]], ["4->2 in epoch 2 does"]),
        ([["4->2 with volume 1 in epoch 1", "4->2 with volume 1 in epoch 2"]], ["4->2 in epoch 2 does not"]),
    ],
)
def test_faults_of_paths_are_told(path: list[object], found: list[str]) -> None:
    violations = [one for one in faults(exchanged(back=path)) if "pairs" not in one]
    assert len(violations) == len(found)
    for one, words in zip(violations, found, strict=True):
        assert one.startswith("chunk 5 of GPU 4 to 2: ")
        assert words in one


def test_pairs_have_as_many_chunks_and_none_with_themselves() -> None:
    sample = exchanged()
    whole = {demand(4, 1, 2): ["2->4 with volume 1 in epoch 0"]}
    sample["8-Chunk paths"] |= whole
    assert faults(sample) == ("pairs of GPUs have 1 to 2 chunks, expected as many each",)
    sample = exchanged()
    sample["8-Chunk paths"] |= {demand(4, 1, 4): ["4->4 with volume 1 in epoch 0"]}
    assert faults(sample) == ("GPU 4 has a demand to itself",)


def test_a_thousand_faults_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge_module.MAX_VIOLATIONS == 1000
    monkeypatch.setattr(judge_module, "MAX_VIOLATIONS", 2)
    sample = exchanged(there=[], back=[])
    assert len(faults(sample)) == 2
    sample["8-Chunk paths"] |= {demand(2, 6, 4): []}
    assert faults(sample) == (
        "chunk 0 of GPU 2 to 4: its paths carry 0 of it",
        "chunk 5 of GPU 4 to 2: its paths carry 0 of it",
        "and 2 more",
    )


def sent(sample: Json) -> list[tuple[int, ...]]:
    """(step, sender, receiver, first chunk, chunks) of all messages."""
    program = traffic(as_bytes(sample), Terms()).program
    rank = program.operation_rank
    columns = (program.step, rank, program.peer, program.first, program.count)
    sends = [place for place in range(program.n_operations) if program.operation_kind[place] == 0]
    return sorted(tuple(int(column[place]) for column in columns) for place in sends)


def test_messages_of_an_allgather() -> None:
    """Ranks 0, 1, 2 are GPUs 3, 5, 9; chunks count within each GPU: 6 before 8."""
    program = traffic(as_bytes(gathered()), Terms()).program
    assert (program.n_ranks, program.n_chunks, program.shard_offset.tolist()) == (3, 6, [0, 2, 4, 6])
    assert sent(gathered()) == [
        (0, 1, 2, 2, 1),
        (1, 2, 0, 4, 1),
        (1, 2, 0, 5, 1),
        (1, 2, 1, 4, 1),
        (1, 2, 1, 5, 1),
        (2, 0, 1, 0, 1),
        (2, 0, 1, 1, 1),
        (2, 0, 2, 0, 1),
        (2, 0, 2, 1, 1),
        (2, 1, 2, 3, 1),
        (3, 2, 0, 2, 1),
        (4, 2, 0, 3, 1),
    ]
    ways = traffic(as_bytes(gathered()), Terms()).ways
    assert sorted(ways.values()) == [("7",)] * 4 + [("70", "71")] * 2


def test_messages_of_an_exchange_carry_their_share() -> None:
    """Thirds: shards of three units, (0, 1) from 3 on and (1, 0) from 6."""
    program = traffic(as_bytes(exchanged()), Terms()).program
    assert (program.n_chunks, program.shard_offset.tolist()) == (6, [0, 3, 6, 9, 12])
    assert sent(exchanged()) == [(0, 0, 1, 4, 2), (1, 0, 1, 3, 1), (2, 1, 0, 6, 3)]
    more = exchanged()
    more["8-Chunk paths"] |= {
        demand(4, 7, 2): ["2->4 with volume 1 in epoch 20"],
        demand(2, 3, 4): ["4->2 with volume 1 in epoch 21"],
    }
    # a pair's chunks are in the order of their numbers: 3 before 5
    assert sent(more) == [
        (0, 0, 1, 7, 2),
        (1, 0, 1, 6, 1),
        (2, 1, 0, 15, 3),
        (3, 0, 1, 9, 3),
        (4, 1, 0, 12, 3),
    ]


@pytest.mark.parametrize(
    ("volumes", "counts"),
    [
        (["0.33349", "0.66651"], [333, 667]),
        (["0.3336", "0.6664"], [334, 666]),
        (["0.25051", "0.25051", "0.49898"], [251, 250, 499]),
        (["0.0004", "0.9996"], [1000]),
        # more than all of it is cut to it: 10006/20008 and so on
        (["0.500611", "0.4996", "0.0002"], [501, 499]),
    ],
)
def test_odd_volumes_are_rounded_to_thousandths(volumes: list[str], counts: list[int]) -> None:
    there: list[object] = [
        f"2->4 with volume {volume} in epoch {place}" for place, volume in enumerate(volumes)
    ]
    sample = exchanged(there=there)
    found = [one[4] for one in sent(sample) if one[1] == 0]
    assert found == counts
    assert traffic(as_bytes(sample), Terms()).notes == (
        "epochs give the order of its sends; when they start the simulation says",
        "volumes are rounded to 1000 parts of a chunk",
    )
    assert len(traffic(as_bytes(exchanged()), Terms()).notes) == 1


def test_chunks_of_all_shards_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert traffic_module._MOST_CHUNKS == 16777216
    for sample, count in ((gathered(), 6), (exchanged(), 12)):
        monkeypatch.setattr(traffic_module, "_MOST_CHUNKS", count)
        assert sent(sample)
        monkeypatch.setattr(traffic_module, "_MOST_CHUNKS", count - 1)
        with pytest.raises(FormatError, match=f"{count} chunks, expected at most {count - 1}"):
            traffic(as_bytes(sample), Terms())


@pytest.mark.parametrize(("volumes", "counts"), [(["0.6"], [4]), (["0.6", "0.6"], [3, 2])])
def test_a_chunk_is_cut_to_what_its_paths_carry(volumes: list[str], counts: list[int]) -> None:
    """Of five units: too little gets one more on its way; too much is cut to all of it, half and half."""
    there: list[object] = [
        f"2->4 with volume {volume} in epoch {place}" for place, volume in enumerate(volumes)
    ]
    assert [one[4] for one in sent(exchanged(there=there)) if one[1] == 0] == counts


def test_the_gpu_with_most_chunks_makes_the_shards() -> None:
    sample = gathered()
    sample["7-Flows"] = [one for one in sample["7-Flows"] if "Chunk 6" not in one]
    program = traffic(as_bytes(sample), Terms()).program
    assert (program.n_chunks, program.shard_offset.tolist()) == (6, [0, 2, 4, 6])
