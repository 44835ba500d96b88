"""The backend's name in torch.distributed: what torch loads with itself, so it is little.

An installed Treadle is an entry point of PyTorch's group `torch.backends`: ``import torch`` calls `autoload`,
and ``init_process_group("treadle")`` needs no other import.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from treadle.errors import MissingDependencyError

if TYPE_CHECKING:
    from treadle.torch.group import TreadleGroup

NAME = "treadle"


def register() -> None:
    """Make the backend known to torch.distributed; importing `treadle.torch` does it.

    Raises
    ------
    MissingDependencyError
        If torch was built without torch.distributed or without gloo, which carries the messages.
    """
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_gloo_available():
        raise MissingDependencyError("the backend treadle needs gloo, which this build of PyTorch lacks")
    if NAME.upper() not in distributed.Backend._plugins:
        distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


def autoload() -> None:
    """Same as `register`, when torch itself is loaded: a build without gloo still supports the rest."""
    try:
        register()
    except MissingDependencyError as error:
        logging.getLogger("treadle.torch").debug("not registered: %s", error)


def _create(backend: Any, options: Any) -> TreadleGroup:
    """Create a process group; see `treadle.torch.group.create_group`."""
    # imported here, because the rest of the backend is not needed before
    from treadle.torch.group import create_group

    return create_group(backend, options)
