"""What text formats cannot express is refused."""

from __future__ import annotations

import pytest

import treadle
from treadle.errors import InfeasibleError


def test_paths_through_forwarders_have_no_xml() -> None:
    plan = treadle.solve("path:3", "allgather", ranks="0,2", forward=True).plan
    with pytest.raises(InfeasibleError, match="'n1', which is not a rank"):
        treadle.lower(plan)


def test_forwarders_that_no_path_passes_do_no_harm() -> None:
    plan = treadle.solve("complete:3", "allgather", ranks="0,2", forward=True, trees=1).plan
    assert treadle.run(plan, [1024]).wrong == 0
