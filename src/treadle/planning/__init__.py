"""The public Python API: from fabric and collective to verified, executable plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.planning.alltoall import uniform_bandwidth as uniform_bandwidth
    from treadle.planning.bounds import Bound as Bound
    from treadle.planning.bounds import BoundResult as BoundResult
    from treadle.planning.bounds import bound as bound
    from treadle.planning.candidate import Form as Form
    from treadle.planning.comparison import Comparison as Comparison
    from treadle.planning.comparison import ComparisonRow as ComparisonRow
    from treadle.planning.comparison import compare as compare
    from treadle.planning.designing import DesignResult as DesignResult
    from treadle.planning.designing import DesignRow as DesignRow
    from treadle.planning.designing import design as design
    from treadle.planning.designing import design_plan as design_plan
    from treadle.planning.exact import DEFAULT_TIME_LIMIT_S as DEFAULT_TIME_LIMIT_S
    from treadle.planning.exact import exact_front as exact_front
    from treadle.planning.execution import ElementType as ElementType
    from treadle.planning.execution import Reduction as Reduction
    from treadle.planning.execution import RunResult as RunResult
    from treadle.planning.execution import RuntimeName as RuntimeName
    from treadle.planning.execution import SweepRow as SweepRow
    from treadle.planning.execution import has_process_per_rank as has_process_per_rank
    from treadle.planning.execution import is_reporter as is_reporter
    from treadle.planning.execution import parse_sizes as parse_sizes
    from treadle.planning.execution import program_of as program_of
    from treadle.planning.execution import run as run
    from treadle.planning.execution import table_lines as table_lines
    from treadle.planning.fabric import DistanceFacts as DistanceFacts
    from treadle.planning.fabric import FabricFacts as FabricFacts
    from treadle.planning.fabric import FactLimits as FactLimits
    from treadle.planning.fabric import SizeBounds as SizeBounds
    from treadle.planning.fabric import describe_fabric as describe_fabric
    from treadle.planning.fabric_facts import fabric_summary as fabric_summary
    from treadle.planning.generation import algorithm_names as algorithm_names
    from treadle.planning.lowering import FriendlierTrees as FriendlierTrees
    from treadle.planning.lowering import Loading as Loading
    from treadle.planning.lowering import Lowered as Lowered
    from treadle.planning.lowering import Profile as Profile
    from treadle.planning.lowering import TargetFormat as TargetFormat
    from treadle.planning.lowering import lower as lower
    from treadle.planning.point_to_point import Shortfall as Shortfall
    from treadle.planning.problem import Problem as Problem
    from treadle.planning.problem import model_of as model_of
    from treadle.planning.problem import pose as pose
    from treadle.planning.repairing import RepairResult as RepairResult
    from treadle.planning.repairing import repair as repair
    from treadle.planning.routing import RouteFormat as RouteFormat
    from treadle.planning.routing import RoutesResult as RoutesResult
    from treadle.planning.routing import routes as routes
    from treadle.planning.routing import routes_of as routes_of
    from treadle.planning.routing import routes_summary as routes_summary
    from treadle.planning.routing import routes_text as routes_text
    from treadle.planning.simulation import Forwarding as Forwarding
    from treadle.planning.simulation import LatencyModel as LatencyModel
    from treadle.planning.simulation import Sharing as Sharing
    from treadle.planning.simulation import SimulatedRow as SimulatedRow
    from treadle.planning.simulation import Simulation as Simulation
    from treadle.planning.simulation import SimulationOptions as SimulationOptions
    from treadle.planning.simulation import SimulationRun as SimulationRun
    from treadle.planning.simulation import SliceLimit as SliceLimit
    from treadle.planning.simulation import chrome_trace as chrome_trace
    from treadle.planning.simulation import critical_path_lines as critical_path_lines
    from treadle.planning.simulation import default_alpha_ns as default_alpha_ns
    from treadle.planning.simulation import simulate as simulate
    from treadle.planning.simulation import utilisation_picture as utilisation_picture
    from treadle.planning.solving import RejectedError as RejectedError
    from treadle.planning.solving import SolveResult as SolveResult
    from treadle.planning.solving import solve as solve
    from treadle.planning.verification import UnverifiedPlanError as UnverifiedPlanError
    from treadle.planning.verification import VerifyResult as VerifyResult
    from treadle.planning.verification import verify as verify
    from treadle.synthesis.alltoall.certificate import RateResult as RateResult
    from treadle.synthesis.engine import TimeLimitError as TimeLimitError
    from treadle.synthesis.forestcoll import Packer as Packer
else:
    __all__, __getattr__ = load_lazily(
        __name__,
        {
            "treadle.planning.alltoall": ("uniform_bandwidth",),
            "treadle.planning.bounds": ("Bound", "BoundResult", "bound"),
            "treadle.planning.candidate": ("Form",),
            "treadle.planning.comparison": ("Comparison", "ComparisonRow", "compare"),
            "treadle.planning.designing": ("DesignResult", "DesignRow", "design", "design_plan"),
            "treadle.planning.exact": ("DEFAULT_TIME_LIMIT_S", "exact_front"),
            "treadle.planning.execution": (
                "ElementType",
                "Reduction",
                "RunResult",
                "RuntimeName",
                "SweepRow",
                "has_process_per_rank",
                "is_reporter",
                "parse_sizes",
                "program_of",
                "run",
                "table_lines",
            ),
            "treadle.planning.fabric": (
                "DistanceFacts",
                "FabricFacts",
                "FactLimits",
                "SizeBounds",
                "describe_fabric",
            ),
            "treadle.planning.fabric_facts": ("fabric_summary",),
            "treadle.planning.generation": ("algorithm_names",),
            "treadle.planning.lowering": (
                "FriendlierTrees",
                "Loading",
                "Lowered",
                "Profile",
                "TargetFormat",
                "lower",
            ),
            "treadle.planning.point_to_point": ("Shortfall",),
            "treadle.planning.problem": ("Problem", "model_of", "pose"),
            "treadle.planning.repairing": ("RepairResult", "repair"),
            "treadle.planning.routing": (
                "RouteFormat",
                "RoutesResult",
                "routes",
                "routes_of",
                "routes_summary",
                "routes_text",
            ),
            "treadle.planning.simulation": (
                "Forwarding",
                "LatencyModel",
                "Sharing",
                "SimulatedRow",
                "Simulation",
                "SimulationOptions",
                "SimulationRun",
                "SliceLimit",
                "chrome_trace",
                "critical_path_lines",
                "default_alpha_ns",
                "simulate",
                "utilisation_picture",
            ),
            "treadle.planning.solving": ("RejectedError", "SolveResult", "solve"),
            "treadle.planning.verification": ("UnverifiedPlanError", "VerifyResult", "verify"),
            "treadle.synthesis.alltoall.certificate": ("RateResult",),
            "treadle.synthesis.engine": ("TimeLimitError",),
            "treadle.synthesis.forestcoll": ("Packer",),
        },
    )
