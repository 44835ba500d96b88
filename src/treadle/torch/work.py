"""Jobs of a process group, one after another, and what callers wait for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Lock

from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.distributed import DistBackendError
from torch.futures import Future as TensorFuture

Job = Callable[[], list[Tensor]]
"""Runs a collective; returns the tensors that hold its result."""


class JobWork(Work):
    """A job under way, as torch sees it.

    Parameters
    ----------
    future : Future
        Of the job.
    name : str
        Of the collective, for messages.
    """

    def __init__(self, future: Future[list[Tensor]], name: str) -> None:
        super().__init__()
        self._future, self._name = future, name

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the job has ended.

        Raises
        ------
        DistBackendError
            If the collective failed, or has not ended within `timeout` (0: no limit but the group's own).
        """
        seconds = timeout.total_seconds() if timeout else 0.0
        try:
            self._future.result(seconds if seconds > 0 else None)
        except TimeoutError:
            raise DistBackendError(f"treadle: {self._name} has not ended within {seconds:g} s") from None
        return True

    def get_future(self) -> TensorFuture[list[Tensor]]:
        """A future of torch; its waiters in C++ see an error as well."""
        ended: TensorFuture[None] = TensorFuture()
        # C++ sees what a callback raises as an error, what set_exception sets as a value
        outcome = ended.then(lambda _: self._future.result())
        self._future.add_done_callback(lambda _: ended.set_result(None))
        return outcome

    def is_completed(self) -> bool:
        """Whether the job has ended, well or not."""
        return self._future.done()

    def is_success(self) -> bool:
        """Whether the job has ended well."""
        return self._future.done() and self._future.exception() is None

    def exception(self) -> BaseException | None:
        """Exception of the failed job."""
        return self._future.exception() if self._future.done() else None

    def result(self) -> list[Tensor]:
        """The tensors that hold the result."""
        return self._future.result()

    def synchronize(self) -> None:
        """Wait."""
        self.wait()


class JobQueue:
    """Runs jobs in the order in which they come, one at a time.

    A job that its caller waits for immediately runs in the caller's thread if none is before it: that saves
    handing it over. The others run in one thread, which ends with the queue, or with the interpreter after
    the jobs that are left.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="treadle")
        self._lock = Lock()
        self._last: Future[list[Tensor]] | None = None

    def run(self, job: Job, name: str, *, is_awaited: bool) -> JobWork:
        """Run a job now or in its turn.

        Parameters
        ----------
        name : str
            For messages.
        is_awaited : bool
            The caller waits for it immediately.
        """
        with self._lock:
            if is_awaited and (self._last is None or self._last.done()):
                future: Future[list[Tensor]] = Future()
                future.set_result(job())
            else:
                future = self._thread.submit(job)
            self._last = future
        return JobWork(future, name)

    def close(self) -> None:
        """Wait for the jobs that are left, and end the thread."""
        self._thread.shutdown(wait=True)
