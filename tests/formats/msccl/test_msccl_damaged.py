"""The interpreter of MSCCL XML against a plain reference, on damaged samples."""

from __future__ import annotations

import re

import pytest

from samples.program_cases import random_case
from treadle.errors import FormatError
from treadle.formats.msccl import interpreter_hazards as interpret_races
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import CollectiveKind


def test_texts_too_large_to_judge_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = emit_msccl_xml(lower(*random_case(1, CollectiveKind.ALLREDUCE)))
    bare = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', text)
    assert any("race" in violation for violation in interpret_msccl_xml(bare).violations)
    monkeypatch.setattr(interpret_races, "MAX_WORK", 1)
    with pytest.raises(FormatError, match="too large to verify"):
        interpret_msccl_xml(bare)
