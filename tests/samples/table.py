"""The table of schedulers as tests read it: Treadle's own, without what is installed beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from treadle.schedulers.schedulers import schedulers
from treadle.synthesis.scheduler import TABLE, Comparing
from treadle.synthesis.scheduler_options import ScheduleForm

OURS = schedulers(plug_ins=False)


def _general(form: ScheduleForm) -> tuple[str, ...]:
    """Names of the schedulers of a form that are no baselines: they serve every fabric without switches."""
    own = [one for one in OURS if one.form is form and str(one.function).startswith("treadle.schedulers.")]
    found = tuple(record.name for record in own)
    assert found
    return found


GENERAL_STEPS = _general(ScheduleForm.ALLTOALL_STEPS)
GENERAL_ROUTES = _general(ScheduleForm.ROUTES)


def baselines_of(*forms: ScheduleForm) -> dict[str, Callable[..., Any]]:
    """Functions of the packages of baselines; peers have tests of their own.

    Those that need switches with operations serve few fabrics and have tests of their own.
    """
    return {
        record.name: record.load()
        for record in OURS
        if record.form in forms
        and ".baselines." in str(record.function)
        and record.comparing is not Comparing.ABLE
    }


BASELINES = baselines_of(ScheduleForm.TREES)
STEP_BASELINES = baselines_of(ScheduleForm.STEPS)
ALLTOALL_BASELINES = baselines_of(ScheduleForm.ALLTOALL_STEPS, ScheduleForm.ROUTES)


@contextmanager
def table_restored() -> Iterator[None]:
    """Schedulers that are registered inside are gone afterwards."""
    before = {record.name for record in TABLE}
    try:
        yield
    finally:
        for record in list(TABLE):
            if record.name not in before:
                TABLE.withdraw(record.name)
