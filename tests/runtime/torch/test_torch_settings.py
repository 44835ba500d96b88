"""Options, environment variables, and the words of what is refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from treadle.errors import FormatError, ScheduleError, TopologyError, TreadleError
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from torch.distributed import HashStore

from treadle.torch import Options
from treadle.torch.group import create_group
from treadle.torch.group_engine import Engine
from treadle.torch.plans import Membership, problems_of
from treadle.torch.settings import SLICE_BYTES, fabric_of, settings_of


def test_environment_fills_what_options_leave_out() -> None:
    environment = {
        "TREADLE_FABRIC": "ring:4",
        "TREADLE_PLANS": "plans",
        "TREADLE_ALGORITHM": "bfb, alltoall=pipelined",
        "TREADLE_SLICE": "64KB",
    }
    settings = settings_of(Options(), environment)
    assert settings.fabric == parse("ring:4")
    assert settings.plans == Path("plans")
    assert settings.algorithm == "bfb"
    assert settings.algorithms == {CollectiveKind.ALLTOALL: "pipelined"}
    assert settings.slice_bytes == 2**16
    own = settings_of(Options(fabric=parse("complete:4"), algorithm="ring", slice_bytes=2**20), environment)
    assert own.fabric == parse("complete:4")
    assert (own.algorithm, own.algorithms, own.slice_bytes) == ("ring", {}, 2**20)
    empty = settings_of(Options(), {"TREADLE_FABRIC": "", "TREADLE_PLANS": ""})
    assert (empty.fabric, empty.plans, empty.slice_bytes) == (None, None, SLICE_BYTES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(algorithm="nothing"), "expected NAME or COLLECTIVE=NAME"),
        (Options(algorithm="allsum=bfb"), "expected NAME or COLLECTIVE=NAME"),
        (Options(algorithm="bfb,ring"), "give one"),
        (Options(fabric="no_such_graph:4"), "no_such_graph"),
        (Options(slice_bytes=1), "at least 4096"),
        (Options(time_limit_s=0), "time_limit_s"),
        (Options(time_limit_s=float("nan")), "time_limit_s"),
    ],
)
def test_malformed_options_are_refused(options: Options, words: str) -> None:
    with pytest.raises(TreadleError, match=words):
        settings_of(options, {})


def test_malformed_slice_of_the_environment() -> None:
    with pytest.raises(FormatError, match="unit"):
        settings_of(Options(), {"TREADLE_SLICE": "65536"})


def test_a_fabric_has_a_compute_node_for_each_rank() -> None:
    with pytest.raises(TopologyError, match="4 compute nodes, the job has 8 ranks"):
        fabric_of(settings_of(Options(fabric="ring:4"), {}), 8)
    assert fabric_of(settings_of(Options(), {}), 3) == parse("complete:3")


def test_groups_of_some_ranks() -> None:
    ring = parse("ring:6")
    own, whole = problems_of(ring, [4, 0, 2], CollectiveKind.BROADCAST, 1)
    names = ("n4", "n0", "n2")
    for problem in (own, whole):
        nodes = problem.collective.ranks
        assert tuple(problem.topology.node_names[node] for node in nodes) == names
        assert problem.collective.root == 1
    assert len(own.topology.compute_nodes) == 3
    assert len(whole.collective.forwarders) == 3
    (all_of_them,) = problems_of(ring, range(6), CollectiveKind.ALLREDUCE, None)
    assert all_of_them.topology == ring


def test_options_of_another_backend_are_refused() -> None:
    class Backend:
        global_ranks_in_group: tuple[int, ...] = ()
        group_size = 4

    with pytest.raises(ScheduleError, match=r"expects treadle\.torch\.Options, found dict"):
        create_group(Backend(), {})


def test_a_group_that_never_spoke_is_aborted() -> None:
    """Its calls are refused from then on, whether or not there were connections to end."""
    fabric = parse("ring:2")
    group = Membership("g", 0, (0, 1), fabric, timedelta(seconds=1))
    engine = Engine(HashStore(), group, settings_of(Options(fabric=fabric), {}))
    engine.abort()
    with pytest.raises(RuntimeError, match="group g was aborted"):
        engine.check()
