"""The mixture-of-experts example: right numbers, an honest comparison, one line for bad input."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import places

MOE = places.ROOT / "examples" / "moe_alltoall.py"


@pytest.fixture
def moe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("moe_alltoall", MOE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "moe_alltoall", module)
    spec.loader.exec_module(module)
    return module


def values_of(moe: ModuleType, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert moe.main([*options, "--json"]) == 0
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--fabric", "torus(3, 3)", "--experts", "27", "--top", "4", "--tokens", "20", "--width", "5"),
        ("--fabric", "hypercube(3)", "--skew", "4", "--tokens", "7", "--top", "1"),
        ("--fabric", "uni_ring(1, 4)", "--algorithm", "shortest-paths", "--tokens", "1"),
    ],
)
def test_every_number_is_that_of_the_layer(
    moe: ModuleType, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    values = values_of(moe, capsys, *options)
    assert values["is_right"]
    assert 0 <= values["error"] < 1e-5
    for phase in ("dispatch", "combine"):
        times = values[phase]
        assert times["bound_s"] <= times["this_schedule_s"] * (1 + 1e-9)
        # routes for even demands cannot beat the bound for the real ones either
        assert times["bound_s"] <= times["even_routes_s"] * (1 + 1e-9)
        assert times["bound_s"] <= times["even_schedule_padded_s"] * (1 + 1e-9)


def test_a_schedule_for_the_demands_is_worth_it_where_they_are_uneven(
    moe: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default: within 5% of the bound, a quarter or more faster than what is made for even demands."""
    values = values_of(moe, capsys)
    assert values["busiest_over_mean"] > 2
    for phase in ("dispatch", "combine"):
        times = values[phase]
        assert times["this_schedule_s"] < 1.05 * times["bound_s"]
        assert times["even_routes_s"] > 1.25 * times["this_schedule_s"]
        assert times["even_schedule_padded_s"] > 2 * times["this_schedule_s"]


def test_the_router_sends_each_token_to_different_experts(moe: ModuleType) -> None:
    routing = moe.route_tokens(4, 8, 50, 3, 2.0, seed=5)
    assert routing.chosen.shape == (4, 50, 3)
    assert all(len(set(row)) == 3 for row in routing.chosen.reshape(-1, 3).tolist())
    assert np.allclose(routing.gate.sum(axis=2), 1)
    demands = routing.demands().matrix
    assert demands.sum(axis=1).tolist() == [150] * 4
    assert demands[1, 2] == sum(4 <= expert < 6 for expert in routing.chosen[1].reshape(-1).tolist())


def test_the_table_names_all_four_times(moe: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert moe.main(["--fabric", "hypercube(2)", "--tokens", "8"]) == 0
    shown = capsys.readouterr().out
    assert "4 experts on 4 ranks of hypercube(2)" in shown
    assert all(
        word in shown for word in ("no schedule can be", "schedule for these", "routes for even", "padded")
    )


def test_a_wrong_number_is_noticed(
    moe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carry = moe.Exchange.carry

    def damaged(self: Any, rows: Any) -> Any:
        arrived = carry(self, rows)
        fullest = max(arrived, key=len)
        fullest[0, 0] += 1.0
        return arrived

    monkeypatch.setattr(moe.Exchange, "carry", damaged)
    assert moe.main(["--fabric", "hypercube(2)"]) == 1
    assert "the layer is wrong by" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--experts", "17"], "experts 17: expected a multiple of 16"),
        (["--top", "17"], "top 17, tokens 64"),
        (["--tokens", "0"], "tokens 0"),
        (["--width", "0"], "width 0: expected at least 1"),
        (["--skew", "nan"], "skew nan"),
        (["--fabric", "dgx_h100(2)"], "expected a direct-connect fabric"),
        (["--fabric", "tours(3, 3)"], "tours"),
        (["--algorithm", "sieve"], "sieve"),
    ],
)
def test_bad_input_takes_one_line(
    moe: ModuleType, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert moe.main(options) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
