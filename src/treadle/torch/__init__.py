"""Torch's collectives by Treadle's plans: ``import treadle.torch``, then ``init_process_group("treadle")``.

Importing this package registers the backend ``treadle`` of torch.distributed (extra ``torch``).
"""

from __future__ import annotations

import importlib.util

from treadle.errors import MissingDependencyError

if importlib.util.find_spec("torch") is None:
    raise MissingDependencyError(
        "treadle.torch needs PyTorch, which is not installed: pip install 'treadle[torch]'"
    )

from treadle.torch.registration import register
from treadle.torch.settings import Options

__all__ = ["Options", "register"]

register()
