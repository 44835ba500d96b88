"""Bases that breadth-first broadcasts cannot do: table A.3's values, and damaged files."""

from __future__ import annotations

import importlib.util
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from reference.step_times import t_b
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact import bases
from treadle.topologies import parse
from treadle.verification.steps.step_check import verify_steps

TABLE_A_3 = {
    "diamond()": (3, Fraction(7, 8)),
    "modified_de_bruijn(2, 3)": (4, Fraction(7, 8)),
    "modified_de_bruijn(2, 4)": (5, Fraction(15, 16)),
    "modified_de_bruijn(3, 2)": (3, Fraction(8, 9)),
    "modified_de_bruijn(4, 2)": (3, Fraction(15, 16)),
}


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("name", TABLE_A_3)
def test_table_a_3(name: str, direction: Direction) -> None:
    topology, steps = bases.base_schedule(name, direction)
    if direction is Direction.BROADCAST:
        kind, schedule = CollectiveKind.ALLGATHER, StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    else:
        kind, schedule = (
            CollectiveKind.REDUCE_SCATTER,
            StepSchedule(CollectiveKind.REDUCE_SCATTER, reduce=steps),
        )
    assert (steps.n_steps, t_b(topology, schedule)) == TABLE_A_3[name]
    assert topology == parse(name)
    assert not verify_steps(topology, on_all_ranks(topology, kind), schedule).n_violations


def test_spelling_is_free_and_strangers_are_refused() -> None:
    assert bases.base_schedule("modified-de-bruijn:2,3", Direction.BROADCAST)[1].n_steps == 4
    with pytest.raises(ScheduleError, match=r"no schedule is shipped for ring\(4\)"):
        bases.base_schedule("ring(4)", Direction.BROADCAST)


def shipped() -> dict[str, Any]:
    path = Path(bases.__file__).parent / "data" / "diamond_allgather.json"
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def damaged() -> dict[str, bytes]:
    good = shipped()
    cases: dict[str, Any] = {
        "no object": [],
        "other version": {**good, "version": 2},
        "other graph": {**good, "topology": "ring(8)"},
        "other arcs": {**good, "arcs": [*good["arcs"][1:], [0, 3]]},
        "a send is missing": {**good, "sends": good["sends"][1:]},
        "a send too early": {**good, "sends": [[s, u, w, 0, a, b] for s, u, w, _, a, b in good["sends"]]},
        "an unknown arc": {**good, "sends": [[0, 0, 5, 0, 0, 1], *good["sends"]]},
        "a huge number": {**good, "sends": [[10**30, 0, 1, 0, 0, 1], *good["sends"]]},
        "a word": {**good, "sends": [["x", 0, 1, 0, 0, 1], *good["sends"]]},
        "no chunks": {key: value for key, value in good.items() if key != "chunks"},
    }
    return {
        **{name: json.dumps(value).encode() for name, value in cases.items()},
        "half a file": json.dumps(good).encode()[:500],
        "not text": b"\xff\xfe\x00",
        "deep": b"[" * 100_000,
        "too large": b" " * (2**22 + 1),
    }


@pytest.mark.parametrize(("name", "data"), damaged().items(), ids=damaged())
def test_damaged_files(name: str, data: bytes) -> None:
    topology = parse("diamond()")
    with pytest.raises(FormatError, match=r"diamond: .*make it again") as caught:
        bases.read_base(data, topology, Direction.BROADCAST, source="diamond")
    assert "\n" not in str(caught.value)


def test_the_wrong_direction_is_refused() -> None:
    data = json.dumps(shipped()).encode()
    with pytest.raises(FormatError, match="it is about"):
        bases.read_base(data, parse("diamond()"), Direction.REDUCE, source="diamond")


@pytest.mark.skipif(
    importlib.util.find_spec("ortools") is None, reason="ortools is not installed (extra exact)"
)
def test_the_command_finds_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "BASES", (bases.BASES[0], bases.BASES[3]))
    bases.main(["--out", str(tmp_path / "data")])
    names = {base.file_name(direction) for base in bases.BASES for direction in Direction}
    assert {path.name for path in (tmp_path / "data").iterdir()} == names
    for base in bases.BASES:
        for direction in Direction:
            data = (tmp_path / "data" / base.file_name(direction)).read_bytes()
            steps = bases.read_base(data, parse(base.expression), direction, source="again")
            assert steps.n_steps == TABLE_A_3[base.expression][0]
