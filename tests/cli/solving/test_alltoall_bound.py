"""``treadle bound TOPOLOGY alltoall`` as a user types it."""

from __future__ import annotations

import json

import pytest

from treadle.cli.main import main


def test_published_methods_stand_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """F = 1/8 of a link on a 4 x 4 torus; a cut of half of it proves as much."""
    for method in ("link-mcf", "decomposed-mcf", "fleischer"):
        assert main(["bound", "torus:4,4", "alltoall", "--method", method, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        assert values["method"] == method
        assert values["pair_rate_bytes_per_s"] == pytest.approx(1 / 8, rel=0.05)
        assert 1 / 8 <= values["pair_rate_upper_bytes_per_s"] <= 1.05 / 8
    for method in ("cut", "bisection"):
        assert main(["bound", "torus:4,4", "alltoall", "--method", method]) == 0
        assert "upper bound  2 B/s algbw, 1.88 B/s busbw (may not be tight)" in capsys.readouterr().out


def test_methods_that_do_not_fit_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    for words, what in (
        (["alltoall", "--method", "simplex"], "expected one of link-mcf, decomposed-mcf, fleischer, cut"),
        (["allgather", "--method", "cut"], "cut is for an all-to-all"),
        (["alltoall", "--method", "cut", "--gap", "0.1"], "cut takes none"),
    ):
        assert main(["bound", "ring:4", *words]) == 2
        assert what in capsys.readouterr().err
