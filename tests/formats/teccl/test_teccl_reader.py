"""TE-CCL's schedules read whole, refused on either side of each limit, and followed when they go wrong."""

from __future__ import annotations

import pytest

from samples.foreign.foreign_files import Json, as_bytes, teccl
from treadle.errors import FormatError
from treadle.formats.teccl import traffic as traffic_module
from treadle.formats.teccl.traffic import traffic
from treadle.formats.verdict import Terms


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


def sent(sample: Json) -> list[tuple[int, ...]]:
    """(step, sender, receiver, first chunk, chunks) of all messages."""
    program = traffic(as_bytes(sample), Terms()).program
    rank = program.operation_rank
    columns = (program.step, rank, program.peer, program.first, program.count)
    sends = [place for place in range(program.n_operations) if program.operation_kind[place] == 0]
    return sorted(tuple(int(column[place]) for column in columns) for place in sends)


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
