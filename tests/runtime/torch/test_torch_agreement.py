"""Ranks that call unlike, and averages of 16 bits: process groups of the backend in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import sleep
from typing import Any

import pytest

from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
from torch import Tensor
from torch.distributed import AllreduceOptions, DistBackendError, HashStore, ReduceOp, ReduceScatterOptions

from treadle.torch import Options, agreement
from treadle.torch.group import TreadleGroup
from treadle.torch.plans import Membership
from treadle.torch.settings import settings_of

N = 4
Work = Callable[[TreadleGroup, int], Any]


def ranks(work: Work, fabric: str = "ring:4") -> list[Any]:
    """What each rank's work returns, or the error with which it ends."""
    topology, store = parse(fabric), HashStore()

    def rank(number: int) -> Any:
        membership = Membership("g", number, tuple(range(N)), topology, timedelta(seconds=20))
        group = TreadleGroup(store, membership, settings_of(Options(fabric=topology), {}))
        try:
            return work(group, number)
        except Exception as error:
            return error
        finally:
            group.shutdown()

    with ThreadPoolExecutor(N) as pool:
        return list(pool.map(rank, range(N)))


def op_of(options: Any, operation: Any) -> Any:
    options.reduceOp = operation
    return options


def call(group: TreadleGroup, name: str, count: int, dtype: torch.dtype, asked: dict[str, Any]) -> None:
    """A collective on `count` elements of a rank."""
    tensor, root = torch.ones(count, dtype=dtype), asked.get("root", 0)
    if name == "allreduce":
        group.allreduce([tensor], op_of(AllreduceOptions(), asked.get("operation", ReduceOp.SUM))).wait()
    elif name == "allgather":
        group.all_gather_single(torch.empty(N * count, dtype=dtype), tensor).wait()
    elif name == "reduce-scatter":
        group.reduce_scatter_single(tensor, torch.ones(N * count, dtype=dtype)).wait()
    elif name == "alltoall":
        group.all_to_all_single(
            torch.empty(N * count, dtype=dtype), torch.ones(N * count, dtype=dtype)
        ).wait()
    elif name == "gather":
        listed = [torch.empty_like(tensor) for _ in range(N)]
        group.gather(listed if group.rank() == root else [], tensor, root).wait()
    elif name == "scatter":
        listed = [tensor.clone() for _ in range(N)]
        group.scatter(tensor, listed if group.rank() == root else [], root).wait()
    else:
        getattr(group, name)([tensor], root).wait()


Call = tuple[str, int, torch.dtype, dict[str, Any]]


def plain(name: str, count: int = 1000, dtype: torch.dtype = torch.float32, **asked: Any) -> Call:
    return name, count, dtype, asked


UNLIKE = [
    (plain("allreduce"), plain("allreduce", 1001), "allreduce sum of 1001 float32 at rank 2"),
    (plain("allreduce", 1001), plain("allreduce"), "allreduce sum of 1000 float32 at rank 2"),
    (plain("allreduce"), plain("allreduce", dtype=torch.int32), "allreduce sum of 1000 int32"),
    (plain("allreduce"), plain("allreduce", operation=ReduceOp.MAX), "allreduce max of 1000 float32"),
    (plain("allgather"), plain("allgather", 7), "allgather of 28 float32"),
    (plain("reduce-scatter"), plain("reduce-scatter", 2**17), "reduce-scatter sum of 524288 float32"),
    (plain("alltoall"), plain("alltoall", 999), "alltoall of 3996 float32"),
    (plain("broadcast"), plain("broadcast", 1), "broadcast of 1 float32 root 0 at rank 2"),
    (plain("broadcast"), plain("broadcast", root=3), "broadcast of 1000 float32 root 3"),
    (plain("reduce"), plain("reduce", 1), "reduce sum of 1 float32"),
    (plain("allreduce"), plain("broadcast"), "broadcast of 1000 float32"),
    # what gloo alone does
    (
        plain("allreduce", dtype=torch.complex64),
        plain("allreduce", 1001, torch.complex64),
        "allreduce sum of 1001 complex64",
    ),
    (plain("gather"), plain("gather", 1001), "gather of 1001 float32 root 0"),
    (plain("scatter"), plain("scatter", 2), "scatter of 2 float32 root 0"),
]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "PATIENCE_S", 0.1)
    monkeypatch.setattr(agreement, "GRACE_S", 0.5)


# each costs half a second where a rank has used its signature before: by hand, all of UNLIKE were run so
KNOWN = [UNLIKE[number] for number in (0, 10, 11)]


@pytest.mark.parametrize(
    ("usual", "other", "words", "known"),
    [(*one, "no rank") for one in UNLIKE]
    + [(*one, known) for one in KNOWN for known in ("all but rank 2", "every rank")],
)
def test_unlike_calls_fail_at_every_rank(usual: Call, other: Call, words: str, known: str) -> None:
    def work(group: TreadleGroup, rank: int) -> None:
        if known != "no rank":
            call(group, *usual)
        if known == "every rank":
            call(group, *other)
        call(group, *(other if rank == 2 else usual))
        assert known != "no rank"
        assert usual[0] in ("broadcast", "reduce"), "this rank's part is done"
        call(group, *usual)

    for error in ranks(work):
        assert isinstance(error, DistBackendError), error
        assert "group g: the ranks call unlike: " in str(error)
        assert words in str(error)
        if known == "no rank":
            assert "at ranks 0-1, 3" in str(error)


def test_a_group_whose_ranks_found_unlike_calls_at_the_start_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "PATIENCE_S", 10.0)

    def work(group: TreadleGroup, rank: int) -> list[float]:
        with pytest.raises(DistBackendError, match="at rank 1; pass"):
            call(group, *plain("allreduce", 8 + (rank == 1)))
        tensor = torch.full((3,), float(rank))
        group.allreduce([tensor]).wait()
        return tensor.tolist()

    assert ranks(work) == [[6.0] * 3] * N


def test_a_rank_that_is_late_is_not_unlike() -> None:
    late = agreement.PATIENCE_S * 6

    def work(group: TreadleGroup, rank: int) -> list[float]:
        tensor = torch.full((3,), float(rank))
        for _ in range(2):
            if rank == 1:
                sleep(late)
            group.allreduce([tensor]).wait()
        return tensor.tolist()

    assert ranks(work) == [[24.0] * 3] * N


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_averages_of_16_bits_are_scaled_first(dtype: torch.dtype) -> None:
    large = 30000.0 if dtype is torch.float16 else 2.0**127

    def work(group: TreadleGroup, rank: int) -> Tensor:
        tensor = torch.full((5,), large, dtype=dtype)
        group.allreduce([tensor], op_of(AllreduceOptions(), ReduceOp.AVG)).wait()
        whole = torch.full((4 * N,), large, dtype=dtype)
        part = torch.empty(4, dtype=dtype)
        group.reduce_scatter(
            [part], [list(whole.chunk(N))], op_of(ReduceScatterOptions(), ReduceOp.AVG)
        ).wait()
        assert whole.eq(large).all(), "the input has changed"
        reduced = torch.full((3,), large, dtype=dtype)
        group.reduce([reduced], 1, op=ReduceOp.AVG).wait()
        return torch.cat([tensor, part, reduced])

    for found in ranks(work):
        assert found.tolist() == torch.full((12,), large, dtype=dtype).tolist()
