"""Where independent work runs: threads of this process, or the workers of a cluster."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import treadle
from treadle.errors import MissingDependencyError, TreadleError

CONNECT_S = 10.0
"""Default time in which a scheduler has to answer."""

_ANSWER_S = 30.0
"""Time in which all workers have to say what version they have."""


@contextmanager
def workers(
    *, threads: int | None = None, cluster: str | None = None, connect_s: float = CONNECT_S
) -> Iterator[None]:
    """Give what is called within this context so many threads, or the workers of a cluster.

    Parameters
    ----------
    threads : int, optional
        Threads, 1 or more. Default: what joblib is configured for around this, else the compiled core takes
        all cores and the rest of the work one thread.
    cluster : str, optional
        Address of a dask scheduler, such as ``tcp://127.0.0.1:8786``; then `threads` has no say.
    connect_s : float
        Seconds in which the scheduler has to answer.

    Raises
    ------
    TreadleError
        If `threads` is not positive, no scheduler answers, it has no workers, or these have another Treadle.
    MissingDependencyError
        If the extra `cluster` is not installed.

    Notes
    -----
    The same as ``joblib.parallel_config(n_jobs=...)`` and ``parallel_config("dask", client=...)``, with
    errors in one line. Values go to the workers pickled, as dask does: whoever can reach a scheduler can run
    code on its workers.

    Examples
    --------
    >>> from treadle.planning import bound
    >>> with workers(threads=2):
    ...     bound("torus(3,3)", "alltoall").rate.exact
    Fraction(1, 3)
    """
    if threads is not None and threads < 1:
        raise TreadleError(f"threads: {threads}, expected at least 1 thread")
    if cluster is None and threads is None:
        yield
        return
    # loaded here: a quarter of a second that most commands do not need
    from joblib import parallel_config

    with ExitStack() as stack:
        if cluster is not None:
            client = stack.enter_context(_connected(cluster, connect_s))
            stack.enter_context(parallel_config(backend="dask", client=client))
        elif threads == 1:
            stack.enter_context(parallel_config(backend="sequential"))
        else:
            stack.enter_context(parallel_config(backend="threading", n_jobs=threads))
        yield


@contextmanager
def _connected(address: str, connect_s: float) -> Iterator[Any]:
    """A client of the scheduler, whose workers have this version of Treadle."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise MissingDependencyError(
            "a cluster needs dask: pip install 'treadle[cluster]', here and on every worker"
        ) from None
    if not (math.isfinite(connect_s) and connect_s > 0):
        raise TreadleError(f"cluster {address}: {connect_s} s to connect, expected more than 0")
    reason = ""
    try:
        make_client: Any = Client  # its constructor has no type annotations
        client: Any = make_client(address, timeout=connect_s, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        # dask names unknown protocols and malformed addresses by ValueError; TimeoutError is an OSError
        reason = f"{error}".splitlines()[0] if f"{error}" else type(error).__name__
    if reason:
        # outside of the handler nothing holds the client that failed: collected later, it closes itself under
        # a lock that the next client's start may hold, and both wait for ever
        gc.collect()
        raise TreadleError(
            f"cluster {address}: no scheduler answers ({reason}); start one with: dask scheduler --host HOST"
        )
    try:
        _check_workers(client, address)
        yield client
    except KilledWorker as error:
        raise TreadleError(
            f"cluster {address}: workers died over some work ({error}); give them more memory"
        ) from None
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may be gone
            client.close()


def _check_workers(client: Any, address: str) -> None:
    if not client.ncores():
        raise TreadleError(f"cluster {address}: has no workers; start some with: dask worker {address}")

    async def send_request() -> Any:
        return await client.run(installed_version)

    try:
        versions = set(client.sync(send_request, callback_timeout=_ANSWER_S).values())
    except TimeoutError:
        raise TreadleError(
            f"cluster {address}: a worker does not answer within {_ANSWER_S:.0f} s; restart it"
        ) from None
    except Exception as error:  # dask hands on what a worker cannot import as text only
        if "No module named" not in str(error):
            raise
        raise TreadleError(
            f"cluster {address}: a worker has no treadle ({error}); install 'treadle[cluster]' on all of them"
        ) from None
    if versions != {treadle.__version__}:
        others = ", ".join(sorted(versions - {treadle.__version__}))
        raise TreadleError(
            f"cluster {address}: workers have treadle {others}, expected {treadle.__version__} as here"
        )


def installed_version() -> str:
    """Treadle's version where this is called."""
    return treadle.__version__
