"""Training and serving steps: what a device computes and holds, and what it waits for.

Values of `treadle.schedules` go in (meshes, kinds of collectives); what a collective costs is told by the
caller, so that nothing here knows how schedules are made.
"""

from __future__ import annotations

from treadle.lazy import load_lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from treadle.training.devices import Accelerator as Accelerator
    from treadle.training.models.model_layer import ModelLayer as ModelLayer
    from treadle.training.models.training_model import TrainingModel as TrainingModel

_HOMES = {
    "treadle.training.devices": ["Accelerator"],
    "treadle.training.models.model_layer": ["ModelLayer"],
    "treadle.training.models.training_model": ["TrainingModel"],
}

__all__, __getattr__, __dir__ = load_lazily(__name__, _HOMES)
