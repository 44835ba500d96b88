"""The lines of Python that put a plan into MSCCL++, executed against a stand-in for it."""

from __future__ import annotations

import pytest

from treadle import planning


@pytest.mark.parametrize("collective", ["reduce", "alltoall"])
def test_what_the_nccl_interface_hands_to_no_plan(collective: str) -> None:
    accepted = {"accept_any_root": True} if collective == "reduce" else {}
    plan = planning.solve("hypercube(2)", collective, **({"root": 0} if accepted else {})).plan
    loading = planning.lower(plan, to="mscclpp-json", path="x.json", **accepted).loading
    assert f"hands no {collective} to plans" in loading.runtime
    assert "AlgorithmCollectionBuilder" not in " ".join(loading.code)
    assert "MSCCLPP_EXECUTION_PLAN_DIR" not in str(loading)
