"""Names as people spell them: what is meant by another spelling, and what is close to a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle import parse
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.problem import resolve_kind
from treadle.planning import find_format
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.collective import CollectiveKind
from treadle.spelling import close_names, did_you_mean, similarly_spelt, unknown
from treadle.topologies.expressions import names_fabric


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all_reduce", "allreduce"),
        ("AllReduce", "allreduce"),
        ("ALL-REDUCE", "allreduce"),
        ("reduce_scatter", "reduce-scatter"),
        ("ReduceScatter", "reduce-scatter"),
        ("all_gather", "allgather"),
        ("a2a", "alltoall"),
        ("all-to-all", "alltoall"),
        ("All2All", "alltoall"),
        ("Broadcast", "broadcast"),
        ("bcast", "broadcast"),
    ],
)
def test_collectives_however_spelt(name: str, kind: str) -> None:
    assert resolve_kind(name) is CollectiveKind(kind)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torus:4x4", "torus(4, 4)"),
        ("torus(4x4x2)", "torus(4, 4, 2)"),
        ("torus:4×3", "torus(4, 3)"),
        ("Torus:4,4", "torus(4, 4)"),
        ("dgx-a100:2", "dgx_a100(2)"),
        ("DGX_A100:2", "dgx_a100(2)"),
        ("DGX-A100(2)", "dgx_a100(2)"),
        ("DgxA100:1", "dgx_a100(1)"),
        ("cartesian-power(Torus(2x2), 2)", "cartesian_power(torus(2, 2), 2)"),
        ("ring(0x10)", "ring(16)"),
        ('with_failed_links(Torus(3x3), "n0_0->n0_1")', 'with_failed_links(torus(3, 3), "n0_0->n0_1")'),
    ],
)
def test_fabrics_however_spelt(text: str, name: str) -> None:
    assert parse(text).name == name
    assert names_fabric(text)


def test_other_spellings_give_way_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Ring:4").write_text("{}")
    assert not names_fabric("Ring:4")
    assert names_fabric("ring:4")
    with pytest.raises(FormatError, match="Ring:4"):
        parse("Ring:4")


def test_algorithms_and_formats_however_spelt() -> None:
    assert find_scheduler("Double_Binary_Tree").name == "double-binary-tree"
    assert find_format("MSCCL_XML").name == "msccl-xml"
    with pytest.raises(FormatError, match=r"did you mean forestcoll\? 'treadle algorithms' lists them all"):
        find_scheduler("forestcol")
    with pytest.raises(ScheduleError, match=r"did you mean msccl-xml .*\? Expected one of chakra"):
        find_format("msccl")


def test_close_names_are_parts_and_slips() -> None:
    names = ["dgx_a100", "dgx_a100_flat", "dgx_h100", "torus", "ring"]
    assert close_names("tours", names) == ["torus"]
    assert close_names("a100", names) == ["dgx_a100", "dgx_a100_flat"]
    assert close_names("H100", names) == ["dgx_h100"]
    assert close_names("", names) == []
    assert close_names("x" * 10**6, names) == []
    assert did_you_mean("quux", names) == ""


def test_a_spelling_of_two_names_is_neither() -> None:
    assert similarly_spelt("A-B", ["ab", "a_b"]) is None
    assert similarly_spelt("ab", ["ab", "a_b"]) == "ab"
    assert similarly_spelt("--", ["ab"]) is None


def test_unknown_names_are_cut_and_listed() -> None:
    assert unknown("form", "y" * 90, ["a", "b"]) == f"unknown form '{'y' * 40}'; expected one of a, b"
    assert unknown("form", "aa", ["aab"], fix="see x") == "unknown form 'aa'; did you mean aab? See x"
