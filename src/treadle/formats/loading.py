"""Where an emitted text is loaded, and how to see that it was: runtimes ignore files silently."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief


@brief("runtime", "environment", "check")
@dataclass(frozen=True)
class Loading:
    """What a runtime needs to load a file, and what it then shows.

    Parameters
    ----------
    runtime : str
    environment : tuple of (str, str)
        Variables to set for every process.
    check : str
        How to see that the file is in use.
    fallback : str
        When the runtime leaves the file aside, or what it does instead.
    prepare : tuple of str
        Shell commands before that.
    code : tuple of str
        Lines of Python for every process.

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
