"""What failed, by names and patterns as people type them; the fabric's name stays an expression."""

import pytest

from treadle.errors import TopologyError
from treadle.topologies import parse, without_failures
from treadle.topologies.transforms.failures import named_failures

FABRIC = "leaf_spine(4, 2, gpus_per_leaf=2)"


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        ("leaf3--spine9", "no node is called 'spine9'; did you mean"),
        ("leaf3--leaf2", "there is no link 'leaf3--leaf2'"),
        ("leaf?--leaf?", "there is no link 'leaf.--leaf.'"),
        ("spien1", "no node is called 'spien1'; did you mean"),
        ("pod*", "no node and no link is called as 'pod.'"),
        ("pod*--spine0", "no node and no link is called as 'pod.--spine0'"),
        ("", "no node is called ''"),
        ("spine0,,spine1", "no node is called ''"),
        ("*.gpu*", "no compute node is left"),
    ],
)
def test_what_there_is_not_is_said(failed: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        without_failures(parse(FABRIC), failed)


def test_an_arrow_in_a_pattern_means_links_that_way_only() -> None:
    fabric = parse("ring(4, bidirectional=False)")
    assert named_failures(fabric, "n?->n0") == (("n3->n0",), ())
    assert set(named_failures(fabric, "n?--n0")[0]) == {"n1--n0", "n3--n0"}


def test_one_of_several_cables_fails_by_its_number() -> None:
    fabric = parse("with_parallel_links(ring(4), 3)")
    assert named_failures(fabric, "n0--n1#2, n1->n2#0,n3") == (("n0--n1#2", "n1->n2#0"), ("n3",))
    left = without_failures(fabric, "n0--n1#2,n1->n2#0")
    assert left.n_links == fabric.n_links - 3
    assert parse(left.name) == left
    with pytest.raises(TopologyError, match="there is no link 'n0--n1#3'"):
        without_failures(fabric, "n0--n1#3")
    with pytest.raises(TopologyError, match="no node is called 'n9#0'"):
        without_failures(fabric, "n0--n9#0")
