"""Training and serving steps: what a device computes and holds, and what it waits for.

Values of `treadle.schedules` go in (meshes, kinds of collectives); what a collective costs is told by the
caller, so that nothing here knows how schedules are made.
"""

from __future__ import annotations

from treadle.lazy import load_lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from treadle.training.compute_times import ComputeTimes as ComputeTimes
    from treadle.training.compute_times import LayerTimes as LayerTimes
    from treadle.training.compute_times import LocalWork as LocalWork
    from treadle.training.compute_times import RooflineTimes as RooflineTimes
    from treadle.training.compute_times import layer_times as layer_times
    from treadle.training.compute_times import read_layer_times as read_layer_times
    from treadle.training.costs import AlphaBetaCosts as AlphaBetaCosts
    from treadle.training.costs import Costs as Costs
    from treadle.training.device_memory import ActivationPolicy as ActivationPolicy
    from treadle.training.device_memory import MemoryParts as MemoryParts
    from treadle.training.device_memory import memory_parts as memory_parts
    from treadle.training.device_memory import missing_bytes as missing_bytes
    from treadle.training.devices import Accelerator as Accelerator
    from treadle.training.devices import accelerator as accelerator
    from treadle.training.devices import read_accelerator as read_accelerator
    from treadle.training.forms.axes import AXIS_FORMS as AXIS_FORMS
    from treadle.training.models.layer_table import read_model as read_model
    from treadle.training.models.model_layer import ModelLayer as ModelLayer
    from treadle.training.models.training_model import TrainingModel as TrainingModel
    from treadle.training.models.zoo import zoo_model as zoo_model
    from treadle.training.serving import ServingOutcome as ServingOutcome
    from treadle.training.serving import ServingPhase as ServingPhase
    from treadle.training.serving import ServingSetup as ServingSetup
    from treadle.training.serving import simulate_phase as simulate_phase
    from treadle.training.step import StepOutcome as StepOutcome
    from treadle.training.step import TrainingSetup as TrainingSetup
    from treadle.training.step import simulate_step as simulate_step
    from treadle.training.timeline.contention import Contention as Contention
    from treadle.training.timeline.streams import run_tasks as run_tasks
    from treadle.training.timeline.task import Category as Category
    from treadle.training.timeline.task import Task as Task
    from treadle.training.timeline.timeline import DeviceTime as DeviceTime
    from treadle.training.timeline.timeline import Timeline as Timeline
    from treadle.training.training_options import TrainingOptions as TrainingOptions

__all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
