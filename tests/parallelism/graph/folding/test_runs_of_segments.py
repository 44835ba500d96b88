"""Which stretches repeat, what their paths are called, and which dimensions are samples and tokens."""

from __future__ import annotations

import pytest

from parallelism.plan.small_models import square_loss, two_matrices
from treadle.errors import TreadleError
from treadle.parallelism.graph.folding.fold import (
    _Run,
    _runs,
    common_prefix,
    repeated,
)


@pytest.mark.parametrize(
    ("segments", "runs"),
    [
        ("xabababcccy", [(1, 2, 3), (7, 1, 3)]),
        ("aaaa", [(0, 1, 4)]),  # not two times two
        ("aabaab", [(0, 3, 2)]),  # longer than two times one
        ("abcdabc", []),
        ("xyabcabcab", [(2, 3, 2)]),
        ("aabb", [(0, 1, 2), (2, 1, 2)]),
        ("", []),
        ("a", []),
    ],
)
def test_equal_stretches_that_follow_each_other(segments: str, runs: list[tuple[int, int, int]]) -> None:
    found = _runs(list(segments))
    assert found == [_Run(*run) for run in runs]
    for run in found:
        word = segments[run.start : run.start + run.period]
        assert segments[run.start : run.end] == word * run.repeats


@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["w", "w"], "w"), (["7", "7"], "7"), (["0", "1"], "*"), (["0", "1", "2"], "*"),
        (["1", "2", "3"], "[1:4]"), (["0", "2", "4"], "[0:5:2]"), (["1", "4"], "[1:5:3]"),
        (["0", "1", "3"], "0|1|3"), (["2", "1", "0"], "2|1|0"),
        (["0", "a"], "0|a"), (["0", "0", "1"], "0|0|1"),
    ],
)  # fmt: skip
def test_what_paths_of_equal_parts_are_called(words: list[str], called: str) -> None:
    assert common_prefix(words) == called


def test_a_block_that_feeds_itself_is_repeated() -> None:
    graph = two_matrices(t=16, h=8, f=24)
    model = repeated(graph, name="m", repeats=5)
    (part,) = model.parts
    names = [graph.nodes[end.node].name for end in (part.enters, part.leaves) if end is not None]
    assert (part.name, part.repeats, names) == ("block", 5, ["x", "y"])
    assert (model.name, model.batch, model.sequence, model.tokens) == ("m", "t", "", 16)
    assert [atom.name for atom in part.graph.atoms] == ["t", "h", "f"]
    with pytest.raises(TreadleError) as caught:
        repeated(square_loss(), name="loss", repeats=2)
    assert str(caught.value) == (
        "model graph loss: no output has the dimensions of an input with a gradient; a block that is "
        "repeated feeds itself"
    )
