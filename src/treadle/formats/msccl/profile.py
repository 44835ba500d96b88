"""The dialects of MSCCL XML."""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """The runtimes' dialects: msccl-executor-nccl, the older msccl runtime, and RCCL.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Profile]
    ['azure', 'legacy', 'rccl']
    """

    AZURE = "azure"
    LEGACY = "legacy"
    RCCL = "rccl"
