"""The public Python API: from fabric and collective to verified, executable plans."""

from treadle.planning.alltoall import uniform_bandwidth
from treadle.planning.candidate import Bound, Form
from treadle.planning.comparison import Comparison, ComparisonRow, compare
from treadle.planning.design import DesignResult, DesignRow, design, design_plan
from treadle.planning.exact import DEFAULT_TIME_LIMIT_S, exact_front
from treadle.planning.execution import (
    ElementType,
    Reduction,
    RunResult,
    RuntimeName,
    SweepRow,
    has_process_per_rank,
    is_reporter,
    parse_sizes,
    program_of,
    run,
    table_lines,
)
from treadle.planning.fabric import (
    DistanceFacts,
    FabricFacts,
    FactLimits,
    SizeBounds,
    describe_fabric,
)
from treadle.planning.fabric_summary import fabric_summary
from treadle.planning.generation import algorithm_names
from treadle.planning.lowering import Loading, Lowered, Profile, TargetFormat, lower
from treadle.planning.point_to_point import Shortfall
from treadle.planning.problem import Problem, model_of, pose
from treadle.planning.repairing import RepairResult, repair
from treadle.planning.routing import (
    RouteFormat,
    RoutesResult,
    routes,
    routes_of,
    routes_summary,
    routes_text,
)
from treadle.planning.simulation import (
    Forwarding,
    LatencyModel,
    Sharing,
    SimulatedRow,
    Simulation,
    SimulationOptions,
    SimulationRun,
    chrome_trace,
    critical_path_lines,
    simulate,
    utilisation_picture,
)
from treadle.planning.solving import BoundResult, RejectedError, SolveResult, bound, solve
from treadle.planning.verification import UnverifiedPlanError, VerifyResult, verify
from treadle.synthesis.alltoall.certificate import RateResult
from treadle.synthesis.engine import TimeLimitError
from treadle.synthesis.forestcoll import Packer

__all__ = [
    "DEFAULT_TIME_LIMIT_S",
    "Bound",
    "BoundResult",
    "Comparison",
    "ComparisonRow",
    "DesignResult",
    "DesignRow",
    "DistanceFacts",
    "ElementType",
    "FabricFacts",
    "FactLimits",
    "Form",
    "Forwarding",
    "LatencyModel",
    "Loading",
    "Lowered",
    "Packer",
    "Problem",
    "Profile",
    "RateResult",
    "Reduction",
    "RejectedError",
    "RepairResult",
    "RouteFormat",
    "RoutesResult",
    "RunResult",
    "RuntimeName",
    "Sharing",
    "Shortfall",
    "SimulatedRow",
    "Simulation",
    "SimulationOptions",
    "SimulationRun",
    "SizeBounds",
    "SolveResult",
    "SweepRow",
    "TargetFormat",
    "TimeLimitError",
    "UnverifiedPlanError",
    "VerifyResult",
    "algorithm_names",
    "bound",
    "chrome_trace",
    "compare",
    "critical_path_lines",
    "describe_fabric",
    "design",
    "design_plan",
    "exact_front",
    "fabric_summary",
    "has_process_per_rank",
    "is_reporter",
    "lower",
    "model_of",
    "parse_sizes",
    "pose",
    "program_of",
    "repair",
    "routes",
    "routes_of",
    "routes_summary",
    "routes_text",
    "run",
    "simulate",
    "solve",
    "table_lines",
    "uniform_bandwidth",
    "utilisation_picture",
    "verify",
]
