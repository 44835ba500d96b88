"""Instructions for loading a runtime file and checking that it is in use: runtimes ignore files silently."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief


@brief("runtime", "environment", "check")
@dataclass(frozen=True)
class Loading:
    """Instructions for loading a runtime file.

    Parameters
    ----------
    runtime : str
    environment : tuple of (str, str)
        Variables to set for every process.
    check : str
        Evidence that the file is in use, e.g. a line of the log.
    fallback : str
        Calls that the file is not used for, or what the runtime does instead.
    prepare : tuple of str
        Shell commands to run first.
    code : tuple of str
        Lines of Python to run in every process.

    Examples
    --------
    >>> import treadle
    >>> loading = treadle.lower(treadle.solve("ring:4", "allgather"), to="msccl-xml", path="ring.xml").loading
    >>> loading.runtime
    'msccl-executor-nccl (in place of NCCL)'
    >>> dict(loading.environment)
    {'NCCL_MSCCL_ENABLE': '1', 'MSCCL_ALGO_DIR': 'ring.msccl', 'NCCL_DEBUG': 'INFO'}
    """

    runtime: str
    environment: tuple[tuple[str, str], ...]
    check: str
    fallback: str
    prepare: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
