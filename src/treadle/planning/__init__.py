"""The public Python API: from fabric and collective to verified, executable plans."""

from treadle.planning.candidate import Bound, algorithm_names
from treadle.planning.compare import Comparison, ComparisonRow, compare
from treadle.planning.problem import Problem, pose
from treadle.planning.run import (
    ElementType,
    Reduction,
    RunResult,
    RuntimeName,
    SweepRow,
    is_reporter,
    parse_sizes,
    program_of,
    run,
    table_lines,
)
from treadle.planning.solve import BoundResult, RejectedError, SolveResult, bound, solve
from treadle.planning.verify import VerifyResult, verify

__all__ = [
    "Bound",
    "BoundResult",
    "Comparison",
    "ComparisonRow",
    "ElementType",
    "Problem",
    "Reduction",
    "RejectedError",
    "RunResult",
    "RuntimeName",
    "SolveResult",
    "SweepRow",
    "VerifyResult",
    "algorithm_names",
    "bound",
    "compare",
    "is_reporter",
    "parse_sizes",
    "pose",
    "program_of",
    "run",
    "solve",
    "table_lines",
    "verify",
]
