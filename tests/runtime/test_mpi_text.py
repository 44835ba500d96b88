"""Emitted XMLs, parsed again and executed by Open MPI with data."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from treadle.errors import FormatError
from treadle.runtime.mpi_run import execute_file


def test_slots_that_take_too_much_memory_are_refused() -> None:
    """Chunks may be more than elements; each slot has room for one element all the same."""
    text = (
        '<cpu name="x" collective="broadcast" ranks="1" chunks="1000" root="0" inplace="0" minBytes="0" '
        'maxBytes="0"><rank id="0" i="0-999" o="0-999" s="" slots="{}">'
        '<copy buf="i" dbuf="o" chunk="0" cnt="1000"/></rank></cpu>'
    )
    world = SimpleNamespace(
        Get_rank=lambda: 0, Get_size=lambda: 1, Barrier=lambda: None, Iprobe=lambda: False, allreduce=int
    )
    assert execute_file(text.format(2**10), world, 8) == [0]
    with pytest.raises(FormatError, match="slots take 1099511625776 elements, expected at most 134217728"):
        execute_file(text.format(2**40 - 2000), world, 8)
