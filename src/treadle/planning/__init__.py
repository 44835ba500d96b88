"""The public Python API: from fabric and collective to verified, executable plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.context import TimeLimitError as TimeLimitError
    from treadle.formats.format import Format as Format
    from treadle.formats.format import all_formats as all_formats
    from treadle.formats.format import find_format as find_format
    from treadle.formats.format import own_formats as own_formats
    from treadle.formats.format import register_format as register_format
    from treadle.formats.format import told_format as told_format
    from treadle.formats.judgement import Check as Check
    from treadle.formats.msccl.profile import Profile as Profile
    from treadle.options.keywords import ParallelizeKeywords as ParallelizeKeywords
    from treadle.options.keywords import TrainKeywords as TrainKeywords
    from treadle.parallelism.capture.added_rules import operator_rule as operator_rule
    from treadle.parallelism.graph.model_graph import ModelGraph as ModelGraph
    from treadle.parallelism.graph.model_graph import ModelPart as ModelPart
    from treadle.parallelism.graph.model_graph import model_to_json as model_to_json
    from treadle.planning.building.built_fabric import BuiltFabric as BuiltFabric
    from treadle.planning.building.built_fabric import cabling as cabling
    from treadle.planning.building.built_fabric import cabling_summary as cabling_summary
    from treadle.planning.building.cabling_check import CablingReport as CablingReport
    from treadle.planning.building.cabling_check import check_cabling as check_cabling
    from treadle.planning.building.cabling_check import check_summary as check_summary
    from treadle.planning.building.cabling_check import plug_text as plug_text
    from treadle.planning.building.growth import GrowthPlan as GrowthPlan
    from treadle.planning.building.growth import grow as grow
    from treadle.planning.building.growth import growth_summary as growth_summary
    from treadle.planning.building.placement import Objective as Objective
    from treadle.planning.building.resilience import FailureLevel as FailureLevel
    from treadle.planning.building.resilience import ResilienceResult as ResilienceResult
    from treadle.planning.building.resilience import parse_amounts as parse_amounts
    from treadle.planning.building.resilience import resilience as resilience
    from treadle.planning.building.resilience import resilience_summary as resilience_summary
    from treadle.planning.building.rewiring import RewiringPlan as RewiringPlan
    from treadle.planning.building.rewiring import reconfigure as reconfigure
    from treadle.planning.building.rewiring import rewiring_summary as rewiring_summary
    from treadle.planning.building.rivals import Rivalry as Rivalry
    from treadle.planning.building.rivals import rivalry_summary as rivalry_summary
    from treadle.planning.building.rivals import rivals as rivals
    from treadle.planning.designing.design import design as design
    from treadle.planning.designing.design import design_plan as design_plan
    from treadle.planning.designing.design_result import DesignResult as DesignResult
    from treadle.planning.designing.design_result import DesignRow as DesignRow
    from treadle.planning.designing.fabric import describe_fabric as describe_fabric
    from treadle.planning.designing.fabric_facts import fabric_summary as fabric_summary
    from treadle.planning.designing.fabric_values import DistanceFacts as DistanceFacts
    from treadle.planning.designing.fabric_values import FabricFacts as FabricFacts
    from treadle.planning.designing.fabric_values import FactLimits as FactLimits
    from treadle.planning.designing.fabric_values import SizeBounds as SizeBounds
    from treadle.planning.designing.known_fabrics import KnownFabric as KnownFabric
    from treadle.planning.designing.known_fabrics import beaten_summary as beaten_summary
    from treadle.planning.designing.known_fabrics import known_fabrics as known_fabrics
    from treadle.planning.drawing.draw import check_picture_name as check_picture_name
    from treadle.planning.drawing.draw import draw as draw
    from treadle.planning.fronts.comparison_picture import comparison_picture as comparison_picture
    from treadle.planning.fronts.front_picture import front_picture as front_picture
    from treadle.planning.fronts.tree_front import TREES_PER_ROOT as TREES_PER_ROOT
    from treadle.planning.fronts.tree_front import TreeFront as TreeFront
    from treadle.planning.fronts.tree_front import tree_front as tree_front
    from treadle.planning.fronts.tree_front_summary import tree_front_summary as tree_front_summary
    from treadle.planning.importing import import_options as import_options
    from treadle.planning.importing import import_topology as import_topology
    from treadle.planning.judging.placed_schedules import PlacedSchedule as PlacedSchedule
    from treadle.planning.judging.placed_schedules import place_file as place_file
    from treadle.planning.judging.placed_schedules import place_schedule as place_schedule
    from treadle.planning.judging.placed_schedules import violation_text as violation_text
    from treadle.planning.judging.point_to_point import Shortfall as Shortfall
    from treadle.planning.judging.verification import UnverifiedPlanError as UnverifiedPlanError
    from treadle.planning.judging.verification import VerifyResult as VerifyResult
    from treadle.planning.judging.verification import verify as verify
    from treadle.planning.measuring.congestion import congestion as congestion
    from treadle.planning.measuring.cost_fit import CostFit as CostFit
    from treadle.planning.measuring.cost_fit import Sweep as Sweep
    from treadle.planning.measuring.cost_fit import fit_cost_model as fit_cost_model
    from treadle.planning.measuring.cost_models import ClassCost as ClassCost
    from treadle.planning.measuring.cost_models import CostModel as CostModel
    from treadle.planning.measuring.cost_models import LinkClass as LinkClass
    from treadle.planning.measuring.cost_models import Protocol as Protocol
    from treadle.planning.measuring.cost_models import as_cost_model as as_cost_model
    from treadle.planning.measuring.cost_models import cost_presets as cost_presets
    from treadle.planning.measuring.cost_models import default_cost_model as default_cost_model
    from treadle.planning.measuring.cost_models import load_cost_model as load_cost_model
    from treadle.planning.measuring.cost_models import reference_hop_ns as reference_hop_ns
    from treadle.planning.measuring.cost_models import save_cost_model as save_cost_model
    from treadle.planning.measuring.diagnose import diagnose as diagnose
    from treadle.planning.measuring.diagnosed import Diagnosis as Diagnosis
    from treadle.planning.measuring.execution import DeviceProtocol as DeviceProtocol
    from treadle.planning.measuring.execution import ElementType as ElementType
    from treadle.planning.measuring.execution import Reduction as Reduction
    from treadle.planning.measuring.execution import RunKeywords as RunKeywords
    from treadle.planning.measuring.execution import RunResult as RunResult
    from treadle.planning.measuring.execution import RuntimeName as RuntimeName
    from treadle.planning.measuring.execution import SweepRow as SweepRow
    from treadle.planning.measuring.execution import has_process_per_rank as has_process_per_rank
    from treadle.planning.measuring.execution import is_reporter as is_reporter
    from treadle.planning.measuring.execution import parse_sizes as parse_sizes
    from treadle.planning.measuring.execution import program_of as program_of
    from treadle.planning.measuring.execution import programs_of as programs_of
    from treadle.planning.measuring.execution import run as run
    from treadle.planning.measuring.referee import Referee as Referee
    from treadle.planning.measuring.referee import RefereedRow as RefereedRow
    from treadle.planning.measuring.referee import ask_referee as ask_referee
    from treadle.planning.measuring.referee import require_referee as require_referee
    from treadle.planning.measuring.simulation import Forwarding as Forwarding
    from treadle.planning.measuring.simulation import LatencyModel as LatencyModel
    from treadle.planning.measuring.simulation import Sharing as Sharing
    from treadle.planning.measuring.simulation import SimulatedRow as SimulatedRow
    from treadle.planning.measuring.simulation import Simulation as Simulation
    from treadle.planning.measuring.simulation import SimulationOptions as SimulationOptions
    from treadle.planning.measuring.simulation import SimulationRun as SimulationRun
    from treadle.planning.measuring.simulation import SliceLimit as SliceLimit
    from treadle.planning.measuring.simulation import critical_path_lines as critical_path_lines
    from treadle.planning.measuring.simulation import simulate as simulate
    from treadle.planning.measuring.simulation import simulation_trace as simulation_trace
    from treadle.planning.measuring.simulation import utilisation_picture as utilisation_picture
    from treadle.planning.parallelising.ask_plan import ExplainedTensor as ExplainedTensor
    from treadle.planning.parallelising.ask_plan import explain_tensor as explain_tensor
    from treadle.planning.parallelising.ask_plan import exported_plan as exported_plan
    from treadle.planning.parallelising.ask_plan import parallel_plan_text as parallel_plan_text
    from treadle.planning.parallelising.ask_plan import plan_changes as plan_changes
    from treadle.planning.parallelising.capture import capture as capture
    from treadle.planning.parallelising.executing import PlanExecution as PlanExecution
    from treadle.planning.parallelising.executing import execute_plan as execute_plan
    from treadle.planning.parallelising.exporting import ExportedPlan as ExportedPlan
    from treadle.planning.parallelising.exporting import export_plan as export_plan
    from treadle.planning.parallelising.parallel_options import DEFAULT_GAP as DEFAULT_GAP
    from treadle.planning.parallelising.parallel_options import read_pins as read_pins
    from treadle.planning.parallelising.parallel_result import FabricSearch as FabricSearch
    from treadle.planning.parallelising.parallel_result import ParallelizeResult as ParallelizeResult
    from treadle.planning.parallelising.parallel_result import PricedPlan as PricedPlan
    from treadle.planning.parallelising.parallelize import parallelize as parallelize
    from treadle.planning.parallelising.plan_changes import PlanChanges as PlanChanges
    from treadle.planning.problem import Problem as Problem
    from treadle.planning.problem import model_of as model_of
    from treadle.planning.problem import pose as pose
    from treadle.planning.repairing.hardening import Failures as Failures
    from treadle.planning.repairing.hardening import HardenedRow as HardenedRow
    from treadle.planning.repairing.hardening import harden as harden
    from treadle.planning.repairing.repair import RepairResult as RepairResult
    from treadle.planning.repairing.repair import repair as repair
    from treadle.planning.reporting.design_page import design_page as design_page
    from treadle.planning.reporting.page_names import check_page_name as check_page_name
    from treadle.planning.reporting.parallel_plan_file import is_parallel_plan as is_parallel_plan
    from treadle.planning.reporting.parallel_plan_file import report_parallel_plan as report_parallel_plan
    from treadle.planning.reporting.plan_page import SHOWN_SIZE as SHOWN_SIZE
    from treadle.planning.reporting.plan_page import report as report
    from treadle.planning.sizing.retuning import retune as retune
    from treadle.planning.sizing.size_sets import SizedChoice as SizedChoice
    from treadle.planning.sizing.size_sets import SizeSet as SizeSet
    from treadle.planning.sizing.size_sets import solve_sizes as solve_sizes
    from treadle.planning.solving.alltoall import uniform_bandwidth as uniform_bandwidth
    from treadle.planning.solving.bounds import BoundResult as BoundResult
    from treadle.planning.solving.bounds import bound as bound
    from treadle.planning.solving.comparison import Comparison as Comparison
    from treadle.planning.solving.comparison import ComparisonRow as ComparisonRow
    from treadle.planning.solving.comparison import compare as compare
    from treadle.planning.solving.exact_synthesis import DEFAULT_TIME_LIMIT_S as DEFAULT_TIME_LIMIT_S
    from treadle.planning.solving.exact_synthesis import exact_front as exact_front
    from treadle.planning.solving.group_rates import AloneRate as AloneRate
    from treadle.planning.solving.group_rates import CutOffGroupError as CutOffGroupError
    from treadle.planning.solving.routing import RouteFormat as RouteFormat
    from treadle.planning.solving.routing import RoutesResult as RoutesResult
    from treadle.planning.solving.routing import routes as routes
    from treadle.planning.solving.routing import routes_lowered as routes_lowered
    from treadle.planning.solving.routing import routes_of as routes_of
    from treadle.planning.solving.routing import routes_summary as routes_summary
    from treadle.planning.solving.routing import routes_text as routes_text
    from treadle.planning.solving.schedulers import algorithm_names as algorithm_names
    from treadle.planning.solving.schedulers import plug_in_faults as plug_in_faults
    from treadle.planning.solving.schedulers import scheduler as scheduler
    from treadle.planning.solving.schedulers import schedulers as schedulers
    from treadle.planning.solving.solve import RejectedError as RejectedError
    from treadle.planning.solving.solve import SolveResult as SolveResult
    from treadle.planning.solving.solve import solve as solve
    from treadle.planning.together.group_costs import GroupCost as GroupCost
    from treadle.planning.together.group_costs import GroupCosts as GroupCosts
    from treadle.planning.together.group_costs import group_costs as group_costs
    from treadle.planning.together.jobs_folder import StoredJobs as StoredJobs
    from treadle.planning.together.jobs_folder import load_jobs as load_jobs
    from treadle.planning.together.jobs_folder import save_jobs as save_jobs
    from treadle.planning.together.solve_jobs import JobsResult as JobsResult
    from treadle.planning.together.solve_jobs import bound_jobs as bound_jobs
    from treadle.planning.together.solve_jobs import solve_jobs as solve_jobs
    from treadle.planning.training.fabric_costs import FabricCosts as FabricCosts
    from treadle.planning.training.fabric_costs import step_costs as step_costs
    from treadle.planning.training.serve import DEFAULT_BATCHES as DEFAULT_BATCHES
    from treadle.planning.training.serve import ServeResult as ServeResult
    from treadle.planning.training.serve import ServeRow as ServeRow
    from treadle.planning.training.serve import serve as serve
    from treadle.planning.training.step_files import step_picture_of as step_picture_of
    from treadle.planning.training.step_files import step_trace_of as step_trace_of
    from treadle.planning.training.step_files import step_workload_of as step_workload_of
    from treadle.planning.training.step_files import write_step_chakra as write_step_chakra
    from treadle.planning.training.train import TrainResult as TrainResult
    from treadle.planning.training.train import TrainRow as TrainRow
    from treadle.planning.training.train import train as train
    from treadle.planning.writing.lower import FriendlierTrees as FriendlierTrees
    from treadle.planning.writing.lower import Loading as Loading
    from treadle.planning.writing.lower import Lowered as Lowered
    from treadle.planning.writing.lower import LoweredGroup as LoweredGroup
    from treadle.planning.writing.lower import TargetFormat as TargetFormat
    from treadle.planning.writing.lower import lower as lower
    from treadle.planning.writing.lower import lower_groups as lower_groups
    from treadle.planning.writing.lower_set import LoweredRange as LoweredRange
    from treadle.planning.writing.lower_set import LoweredSet as LoweredSet
    from treadle.planning.writing.lower_set import lower_set as lower_set
    from treadle.planning.writing.ranges import range_count as range_count
    from treadle.planning.writing.ranges import range_words as range_words
    from treadle.planning.writing.set_folder import SavedSet as SavedSet
    from treadle.planning.writing.set_folder import is_set_folder as is_set_folder
    from treadle.planning.writing.set_folder import save_set as save_set
    from treadle.synthesis.alltoall.rate.certificate import RateResult as RateResult
    from treadle.synthesis.result import Bound as Bound
    from treadle.synthesis.scheduler_options import AlltoallOptions as AlltoallOptions
    from treadle.synthesis.scheduler_options import Form as Form
    from treadle.synthesis.scheduler_options import RouteOptions as RouteOptions
    from treadle.synthesis.scheduler_options import SchedulerOptions as SchedulerOptions
    from treadle.synthesis.scheduler_options import SizeRequest as SizeRequest
    from treadle.synthesis.scheduler_options import StepOptions as StepOptions
    from treadle.synthesis.scheduler_options import TreeOptions as TreeOptions
    from treadle.synthesis.trees import Packer as Packer
    from treadle.traces.trace_files import check_trace_name as check_trace_name
    from treadle.traces.trace_files import write_trace as write_trace
    from treadle.viz.matplotlib_figures import check_figure_name as check_figure_name
else:
    __all__, __getattr__, __dir__ = load_lazily(
        __name__,
        {
            "treadle.formats.format": (
                "Format",
                "all_formats",
                "find_format",
                "own_formats",
                "register_format",
                "told_format",
            ),
            "treadle.formats.judgement": ("Check",),
            "treadle.formats.msccl.profile": ("Profile",),
            "treadle.planning.sizing.retuning": ("retune",),
            "treadle.planning.sizing.size_sets": ("SizeSet", "SizedChoice", "solve_sizes"),
            "treadle.planning.solving.alltoall": ("uniform_bandwidth",),
            "treadle.planning.solving.bounds": ("BoundResult", "bound"),
            "treadle.synthesis.result": ("Bound",),
            "treadle.planning.solving.comparison": ("Comparison", "ComparisonRow", "compare"),
            "treadle.planning.building.built_fabric": (
                "BuiltFabric",
                "cabling",
                "cabling_summary",
            ),
            "treadle.planning.building.placement": ("Objective",),
            "treadle.planning.building.cabling_check": (
                "CablingReport",
                "check_cabling",
                "check_summary",
                "plug_text",
            ),
            "treadle.planning.building.growth": (
                "GrowthPlan",
                "grow",
                "growth_summary",
            ),
            "treadle.planning.building.rewiring": (
                "RewiringPlan",
                "reconfigure",
                "rewiring_summary",
            ),
            "treadle.planning.building.rivals": ("Rivalry", "rivalry_summary", "rivals"),
            "treadle.planning.building.resilience": (
                "FailureLevel",
                "ResilienceResult",
                "parse_amounts",
                "resilience",
                "resilience_summary",
            ),
            "treadle.planning.designing.design": ("design", "design_plan"),
            "treadle.planning.designing.design_result": ("DesignResult", "DesignRow"),
            "treadle.planning.solving.group_rates": ("AloneRate", "CutOffGroupError"),
            "treadle.planning.fronts.comparison_picture": ("comparison_picture",),
            "treadle.planning.fronts.front_picture": ("front_picture",),
            "treadle.planning.fronts.tree_front": ("TREES_PER_ROOT", "TreeFront", "tree_front"),
            "treadle.planning.fronts.tree_front_summary": ("tree_front_summary",),
            "treadle.planning.solving.exact_synthesis": ("DEFAULT_TIME_LIMIT_S", "exact_front"),
            "treadle.planning.measuring.congestion": ("congestion",),
            "treadle.planning.measuring.diagnose": ("diagnose",),
            "treadle.planning.measuring.diagnosed": ("Diagnosis",),
            "treadle.planning.measuring.execution": (
                "DeviceProtocol",
                "ElementType",
                "Reduction",
                "RunKeywords",
                "RunResult",
                "RuntimeName",
                "SweepRow",
                "has_process_per_rank",
                "is_reporter",
                "parse_sizes",
                "program_of",
                "programs_of",
                "run",
            ),
            "treadle.planning.designing.fabric": (
                "DistanceFacts",
                "FabricFacts",
                "FactLimits",
                "SizeBounds",
                "describe_fabric",
            ),
            "treadle.planning.designing.fabric_facts": ("fabric_summary",),
            "treadle.planning.drawing.draw": ("check_picture_name", "draw"),
            "treadle.planning.designing.known_fabrics": ("KnownFabric", "beaten_summary", "known_fabrics"),
            "treadle.planning.reporting.design_page": ("design_page",),
            "treadle.planning.reporting.page_names": ("check_page_name",),
            "treadle.planning.reporting.parallel_plan_file": ("is_parallel_plan", "report_parallel_plan"),
            "treadle.planning.reporting.plan_page": ("SHOWN_SIZE", "report"),
            "treadle.planning.importing": ("import_options", "import_topology"),
            "treadle.planning.together.solve_jobs": ("JobsResult", "bound_jobs", "solve_jobs"),
            "treadle.planning.together.group_costs": ("GroupCost", "GroupCosts", "group_costs"),
            "treadle.planning.together.jobs_folder": ("StoredJobs", "load_jobs", "save_jobs"),
            "treadle.planning.training.fabric_costs": ("FabricCosts", "step_costs"),
            "treadle.planning.training.serve": ("DEFAULT_BATCHES", "ServeResult", "ServeRow", "serve"),
            "treadle.planning.training.step_files": (
                "step_picture_of",
                "step_trace_of",
                "step_workload_of",
                "write_step_chakra",
            ),
            "treadle.planning.training.train": ("TrainResult", "TrainRow", "train"),
            "treadle.options.keywords": ("ParallelizeKeywords", "TrainKeywords"),
            "treadle.planning.writing.lower": (
                "FriendlierTrees",
                "Loading",
                "Lowered",
                "LoweredGroup",
                "TargetFormat",
                "lower",
                "lower_groups",
            ),
            "treadle.planning.writing.lower_set": ("LoweredRange", "LoweredSet", "lower_set"),
            "treadle.planning.writing.ranges": ("range_count", "range_words"),
            "treadle.planning.writing.set_folder": ("SavedSet", "is_set_folder", "save_set"),
            "treadle.planning.judging.placed_schedules": (
                "PlacedSchedule",
                "place_file",
                "place_schedule",
                "violation_text",
            ),
            "treadle.planning.judging.point_to_point": ("Shortfall",),
            "treadle.parallelism.capture.added_rules": ("operator_rule",),
            "treadle.parallelism.graph.model_graph": ("ModelGraph", "ModelPart", "model_to_json"),
            "treadle.planning.parallelising.capture": ("capture",),
            "treadle.planning.parallelising.executing": ("PlanExecution", "execute_plan"),
            "treadle.planning.parallelising.exporting": ("ExportedPlan", "export_plan"),
            "treadle.planning.parallelising.ask_plan": (
                "ExplainedTensor",
                "explain_tensor",
                "exported_plan",
                "parallel_plan_text",
                "plan_changes",
            ),
            "treadle.planning.parallelising.plan_changes": ("PlanChanges",),
            "treadle.planning.parallelising.parallel_options": (
                "DEFAULT_GAP",
                "read_pins",
            ),
            "treadle.planning.parallelising.parallel_result": (
                "FabricSearch",
                "ParallelizeResult",
                "PricedPlan",
            ),
            "treadle.planning.parallelising.parallelize": ("parallelize",),
            "treadle.planning.problem": ("Problem", "model_of", "pose"),
            "treadle.planning.repairing.hardening": ("Failures", "HardenedRow", "harden"),
            "treadle.planning.repairing.repair": ("RepairResult", "repair"),
            "treadle.planning.solving.routing": (
                "RouteFormat",
                "RoutesResult",
                "routes",
                "routes_lowered",
                "routes_of",
                "routes_summary",
                "routes_text",
            ),
            "treadle.planning.measuring.referee": (
                "Referee",
                "RefereedRow",
                "ask_referee",
                "require_referee",
            ),
            "treadle.planning.measuring.cost_fit": ("CostFit", "Sweep", "fit_cost_model"),
            "treadle.planning.measuring.cost_models": (
                "ClassCost",
                "CostModel",
                "LinkClass",
                "Protocol",
                "as_cost_model",
                "cost_presets",
                "default_cost_model",
                "load_cost_model",
                "reference_hop_ns",
                "save_cost_model",
            ),
            "treadle.planning.measuring.simulation": (
                "Forwarding",
                "LatencyModel",
                "Sharing",
                "SimulatedRow",
                "Simulation",
                "SimulationOptions",
                "SimulationRun",
                "SliceLimit",
                "critical_path_lines",
                "simulate",
                "simulation_trace",
                "utilisation_picture",
            ),
            "treadle.planning.solving.schedulers": (
                "algorithm_names",
                "plug_in_faults",
                "scheduler",
                "schedulers",
            ),
            "treadle.planning.solving.solve": ("RejectedError", "SolveResult", "solve"),
            "treadle.planning.judging.verification": ("UnverifiedPlanError", "VerifyResult", "verify"),
            "treadle.synthesis.alltoall.rate.certificate": ("RateResult",),
            "treadle.traces.trace_files": ("check_trace_name", "write_trace"),
            "treadle.viz.matplotlib_figures": ("check_figure_name",),
            "treadle.context": ("TimeLimitError",),
            "treadle.synthesis.scheduler_options": (
                "AlltoallOptions",
                "Form",
                "RouteOptions",
                "SchedulerOptions",
                "SizeRequest",
                "StepOptions",
                "TreeOptions",
            ),
            "treadle.synthesis.trees": ("Packer",),
        },
    )
