"""Torch's collectives by Treadle's plans: ``init_process_group("treadle")``.

Where Treadle is installed, PyTorch finds the backend by itself; importing this package registers it as well
(extra ``torch``).
"""

from __future__ import annotations

import importlib.util

from treadle.errors import MissingDependencyError
from treadle.lazy import load_lazily

if importlib.util.find_spec("torch") is None:
    raise MissingDependencyError(
        "treadle.torch needs PyTorch, which is not installed: pip install 'treadle[torch]'"
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from treadle.torch.peer_tensors import empty as empty
    from treadle.torch.prices import autoparallel_cost as autoparallel_cost
    from treadle.torch.prices import autoparallel_prices as autoparallel_prices
    from treadle.torch.prices import inductor_estimator as inductor_estimator
    from treadle.torch.registration import register as register
    from treadle.torch.settings import Options as Options
else:
    __all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
    __getattr__("register")()
