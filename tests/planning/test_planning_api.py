"""The public Python API on small fabrics: every algorithm, every collective, verified and below the bound."""

from __future__ import annotations

import pytest

from treadle.planning import (
    TimeLimitError,
    compare,
    solve,
    verify,
)
from treadle.schedulers import generation
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies import (
    parse,
)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("fabric", ["ring:4", "dgx_a100(2, gpus_per_box=2)", "torus:2,3"])
def test_every_scheduler_is_verified_and_within_the_bound(fabric: str, kind: CollectiveKind) -> None:
    result = compare(fabric, kind)
    assert [row for row in result.rows if row.algbw is not None]
    for row in result.rows:
        if row.report is None:
            assert row.refusal
            continue
        assert row.report.is_ok, (row.algorithm, row.report.violations)
        assert row.algbw is not None
        assert row.rate is not None
        assert row.algbw <= row.rate <= result.bound.algbw
    values = [row.rate for row in result.rows if row.rate is not None]
    assert values == sorted(values, reverse=True)


def test_verify_on_a_weaker_fabric_fails() -> None:
    plan = solve("ring:4", "allgather").plan
    weaker = parse('with_failed_links(ring(4), "n0->n1")')
    result = verify(plan, weaker)
    assert not result.is_ok
    assert "n0->n1" in str(result.report.violations[0])
    faster = parse('ring(4, bandwidth="2B/s")')
    assert not verify(plan, faster).is_ok  # the claims are false there


def test_late_solve_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "GRACE_S", 60.0)  # so that a busy machine has its bound too
    result = solve("mi250:2", "allgather", time_limit_s=1e-9)
    assert result.is_late
    assert result.report.is_ok
    assert result.plan.algorithm in generation.FALLBACKS
    assert result.optimal_algbw is not None


def test_fabrics_on_which_no_schedule_is_quick_are_refused_when_time_is_up() -> None:
    with pytest.raises(TimeLimitError, match="quick enough"):
        solve("dgx_h100:128", "allgather", time_limit_s=0.0)
