"""How process groups of the backend end: aborted or shut down, alone in a process."""

from __future__ import annotations

from datetime import timedelta

import pytest

from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
from torch.distributed import HashStore

from treadle.torch import Options
from treadle.torch.group import TreadleGroup
from treadle.torch.plans import Membership
from treadle.torch.settings import settings_of


def group_of_one() -> TreadleGroup:
    """The only rank of a job."""
    fabric = parse("ring:2")
    membership = Membership("lone", 0, (0,), fabric, timedelta(seconds=5))
    return TreadleGroup(HashStore(), membership, settings_of(Options(fabric=fabric), {}))


def test_an_aborted_group_refuses_its_collectives() -> None:
    group = group_of_one()
    tensor = torch.tensor([3.0, 4.0])
    group.allreduce([tensor]).wait()
    assert tensor.tolist() == [3.0, 4.0]
    group.abort()
    with pytest.raises(RuntimeError, match="treadle: group lone was aborted"):
        group.allreduce([tensor])


def test_a_group_that_is_shut_down_takes_no_more_jobs() -> None:
    group = group_of_one()
    assert group._queue.run(list, "one", is_awaited=False).result() == []
    group.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        group._queue.run(list, "two", is_awaited=False)
