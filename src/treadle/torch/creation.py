"""Process groups of the backend, as torch asks for them; loaded when the first is made."""

from __future__ import annotations

import atexit
import gc
from typing import Any

import torch.distributed as distributed
from torch._C._distributed_c10d import _DistributedBackendOptions

from treadle.errors import ScheduleError
from treadle.torch.group import TreadleGroup
from treadle.torch.plans import Membership
from treadle.torch.settings import Options, Settings, fabric_of, settings_of


def _leave() -> None:
    """Destroy groups that a program has left behind: gloo's may hang in the interpreter's last collection."""
    if distributed.is_initialized() and isinstance(distributed.group.WORLD, TreadleGroup):
        distributed.destroy_process_group()
        gc.collect()


def create_group(backend: _DistributedBackendOptions, options: Any) -> TreadleGroup:
    """A process group of this backend, as torch asks for one.

    Parameters
    ----------
    backend : _DistributedBackendOptions
        Store, rank, size, timeout, name and ranks in the job (none: all of them).
    options : Options, optional
        What was given as ``pg_options``; by default those of the whole job's group, if it is of this
        backend.

    Raises
    ------
    TreadleError
        If an option or environment variable is malformed, or the fabric has not one compute node per rank.
    """
    ranks = tuple(backend.global_ranks_in_group) or tuple(range(backend.group_size))
    is_part = bool(backend.global_ranks_in_group)
    settings = _settings(options, is_part)
    n_ranks = distributed.get_world_size() if is_part else backend.group_size
    membership = Membership(
        name=str(backend.group_id),
        rank=backend.group_rank,
        places=ranks,
        fabric=fabric_of(settings, n_ranks),
        timeout=backend.timeout,
    )
    return TreadleGroup(backend.store, membership, settings)


def _settings(options: Any, is_part: bool) -> Settings:
    if options is None and is_part:
        whole = distributed.group.WORLD
        if isinstance(whole, TreadleGroup):
            return whole.settings
    if options is not None and not isinstance(options, Options):
        raise ScheduleError(
            f"pg_options: the backend treadle expects treadle.torch.Options, found {type(options).__name__}"
        )
    return settings_of(options or Options())


atexit.register(_leave)
