"""States of tensors: what may be sharded how, and how much of it is where."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.state.sharding import Sharding, axis_sizes, replicated
from treadle.schedules.mesh import Mesh

SIZES = axis_sizes(Mesh((2, 1, 4), ("dp", "pp", "tp")))


def test_each_dimension_is_cut_by_all_its_axes() -> None:
    assert Sharding((("tp", "dp"), ())).local_shape((24, 5), SIZES) == (3, 5)
    assert Sharding((("tp",), ("dp",))).local_shape((24, 6), SIZES) == (6, 3)
    assert Sharding((("tp",), ()), frozenset(("dp",))).local_shape((24, 6), SIZES) == (6, 6)
    assert replicated(2).local_shape((7, 5), SIZES) == (7, 5)


@pytest.mark.parametrize(("sharding", "shape", "words"), [
    (Sharding((("tp", "dp"),)), (20,), "dimension 0 of 20 over 8 ranks; expected equal shards"),
    (Sharding((("pp",),)), (20,), "no axis 'pp' of at least 2 ranks; there are dp, tp"),
    (Sharding(((),), frozenset(("x",))), (20,), "no axis 'x'"),
    (Sharding((("tp",),)), (20, 4), "1 dimensions in the state, 2 in the tensor"),
])  # fmt: skip
def test_uneven_shards_and_unknown_axes_are_refused(
    sharding: Sharding, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ScheduleError) as error:
        sharding.local_shape(shape, SIZES)
    assert words in str(error.value)
    assert str(error.value).startswith(f"sharding {sharding}: ")


@pytest.mark.parametrize("dims", [((("dp",), ("dp",)), ()), (((), ("dp",)), ("dp",)), ((("dp", "dp"),), ())])
def test_an_axis_does_one_thing(dims: tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]) -> None:
    with pytest.raises(ScheduleError, match="axis 'dp' appears twice"):
        Sharding(dims[0], frozenset(dims[1]))
