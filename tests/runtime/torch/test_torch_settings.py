"""Options, environment variables, and the words of what is refused."""

import pytest

from treadle.errors import ScheduleError, TopologyError, TreadleError
from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")


from treadle.torch import Options
from treadle.torch.group import create_group
from treadle.torch.settings import fabric_of, settings_of


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


def test_a_fabric_has_a_compute_node_for_each_rank() -> None:
    with pytest.raises(TopologyError, match="4 compute nodes, the job has 8 ranks"):
        fabric_of(settings_of(Options(fabric="ring:4"), {}), 8)
    assert fabric_of(settings_of(Options(), {}), 3) == parse("complete:3")


def test_options_of_another_backend_are_refused() -> None:
    class Backend:
        global_ranks_in_group: tuple[int, ...] = ()
        group_size = 4

    with pytest.raises(ScheduleError, match=r"expects treadle\.torch\.Options, found dict"):
        create_group(Backend(), {})
