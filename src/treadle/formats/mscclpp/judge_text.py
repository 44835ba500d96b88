"""MSCCL++ plans judged as files."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.formats.judgement import Check, Judgement, Terms, decoded
from treadle.formats.mscclpp.judge import interpret_mscclpp_json
from treadle.formats.mscclpp.reader import ExecutionPlan, parse_mscclpp_json


def read(data: bytes, terms: Terms) -> ExecutionPlan:
    """A plan."""
    source = terms.source or "MSCCL++ plan"
    return parse_mscclpp_json(decoded(data, source), source)


def judge(files: Sequence[bytes], terms: Terms) -> Judgement:
    """Execute a plan; FormatError if it is malformed or hostile."""
    source = terms.source or "MSCCL++ plan"
    seen = interpret_mscclpp_json(decoded(files[0], source), root=terms.root, source=source)
    return Judgement(
        Check.EXECUTED,
        seen.violations,
        (("plan operation", seen.n_operations), ("thread block", seen.n_thread_blocks)),
        seen.n_ranks,
        seen.collective,
        notes=seen.notes,
    )
