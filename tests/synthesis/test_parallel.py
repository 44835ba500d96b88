"""Work cut up for threads, processes or a dask cluster: same results everywhere, nothing left behind."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
from distributed import Client, LocalCluster
from joblib import parallel_config

from harness.dask_cluster import dask_cluster
from treadle.context import UNLIMITED, Context, TimeLimitError, context, under
from treadle.schedules.collective import Collective, CollectiveKind, Demands, on_all_ranks
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.mcf_programs import children_mcf
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes import disjoint_paths as path_sets
from treadle.synthesis.alltoall.routes import extract
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.parallel import core_threads, map_blocks, runs_apart, spans
from treadle.topologies import parse
from treadle.topologies.topology import Topology

Configuration = Callable[[], AbstractContextManager[object]]
SERIAL = ("none", "sequential")


@pytest.fixture(scope="module")
def configurations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Configuration]]:
    """Ways to run; the cluster's workers are processes, as on other machines."""
    with (
        dask_cluster(tmp_path_factory.mktemp("dask"), n_workers=2) as address,
        Client(address, set_as_default=False) as client,
    ):
        yield {
            "none": nullcontext,
            "sequential": lambda: parallel_config("sequential"),
            "threads": lambda: parallel_config("threading", n_jobs=2),
            "dask": lambda: parallel_config("dask", client=client),
        }


@pytest.fixture(scope="module")
def uneven() -> tuple[Topology, Collective, ConcurrentFlow]:
    """Uneven demands on a fabric of 24 ranks, and an optimal flow of several paths a pair."""
    fabric = parse("generalized_kautz(3,24)")
    between = np.random.default_rng(5).integers(0, 4, (24, 24))
    between[7] = 0  # has nothing to send
    np.fill_diagonal(between, 0)
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(24)), demands=Demands(between))
    return fabric, collective, optimal_rate(fabric, collective).flow


def run_everything(problem: tuple[Topology, Collective, ConcurrentFlow]) -> list[tuple[np.ndarray, ...]]:
    fabric, collective, flow = problem
    results: list[tuple[np.ndarray, ...]] = []
    for widest in (False, True):
        found = extract_paths(fabric, collective, flow.by_source, widest=widest)
        results.append((found.paths.source, found.paths.offset, found.paths.links, found.weights))
    sets = (
        disjoint_paths(fabric, collective),
        bounded_paths(fabric, collective, slack=1, most=5),
    )
    results.extend((paths.source, paths.offset, paths.links) for paths in sets)
    children = children_mcf(fabric, collective, flow)
    results.extend((np.array([source]), flows) for source, flows in children.items())
    return results


@pytest.mark.parametrize("name", ["sequential", "threads", "dask"])
def test_results_are_identical_wherever_the_work_runs(
    name: str,
    configurations: dict[str, Configuration],
    uneven: tuple[Topology, Collective, ConcurrentFlow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with under(Context()):
        expected = run_everything(uneven)
    for module, constants in (
        (extract, ("_LEAST_WALKS", "_LEAST_SEARCHES")),
        (path_sets, ("_LEAST_PAIRS", "_LEAST_SOURCES")),
    ):
        for constant in constants:
            monkeypatch.setattr(module, constant, 3)  # so that a small fabric is cut up
    pieces: dict[str, int] = {}
    with configurations[name](), under(Context(lambda stage, _, total: pieces.update({stage: total}))):
        found = run_everything(uneven)
    assert len(found) == len(expected) == 4 + 23
    for one, other in zip(found, expected, strict=True):
        assert all(map(np.array_equal, one, other))
    assert pieces["children"] == 23
    if name == "threads":
        assert pieces["disjoint paths"] == 6
        assert pieces["peeling"] == pieces["bounded paths"] == 1  # Python code: threads are no use
    if name == "dask":
        assert pieces["disjoint paths"] == pieces["peeling"] == pieces["bounded paths"] == 6


def test_tasks_are_plain_values_and_functions(uneven: tuple[Topology, Collective, ConcurrentFlow]) -> None:
    fabric, collective, _ = uneven
    for value in (fabric, collective, extract._peeled, path_sets._disjoint, path_sets._bounded):
        copy = pickle.loads(pickle.dumps(value))
        assert copy == value


def square(value: int) -> int:
    time.sleep(0.002 * (5 - value))  # later ones are done first
    return value * value


@pytest.mark.parametrize("name", ["none", "sequential", "threads", "dask"])
def test_results_come_in_order_and_progress_is_told(
    name: str, configurations: dict[str, Configuration]
) -> None:
    seen: list[tuple[str, int, int]] = []
    watch = Context(lambda stage, done, total: seen.append((stage, done, total)))
    with configurations[name](), under(watch):
        assert map_blocks("squares", square, [(value,) for value in range(5)]) == [
            0,
            1,
            4,
            9,
            16,
        ]
    last = 4 if name in SERIAL else 5
    assert seen == [("squares", done, 5) for done in range(last + 1)]


def settings_inside(_: int) -> tuple[int, bool, int]:
    return core_threads(16), runs_apart(), len(spans(100, least=1))


def test_a_task_has_one_thread_and_no_workers(configurations: dict[str, Configuration]) -> None:
    for name in ("threads", "dask"):
        with configurations[name]():
            inside = map_blocks("settings", settings_inside, [(0,), (1,), (2,)])
        assert inside == [(1, False, 1)] * 3


def test_core_threads_follow_the_configuration() -> None:
    assert core_threads(1) == 1
    with parallel_config("sequential"):
        assert core_threads(16) == 1
    with parallel_config("threading", n_jobs=2):
        assert 1 <= core_threads(16) <= 2


def fail_at_two(value: int) -> int:
    if value == 2:
        raise OverflowError("two is too large")
    return value


@pytest.mark.parametrize("name", ["none", "threads", "dask"])
def test_a_failure_reaches_the_caller(name: str, configurations: dict[str, Configuration]) -> None:
    with configurations[name](), pytest.raises(OverflowError, match="two is too large"):
        map_blocks("failing", fail_at_two, [(value,) for value in range(6)])
    with configurations[name]():
        assert map_blocks("squares", square, [(3,), (4,)]) == [9, 16]  # workers are as good as before


def slow(value: int) -> int:
    time.sleep(0.05)
    return value


@pytest.mark.parametrize("name", ["none", "threads", "dask"])
def test_the_deadline_ends_the_work(name: str, configurations: dict[str, Configuration]) -> None:
    done: list[int] = []
    watch = Context(lambda _, number, __: done.append(number), time.monotonic() + 0.12)
    with configurations[name](), pytest.raises(TimeLimitError), under(watch):
        map_blocks("slow", slow, [(value,) for value in range(100)])
    assert len(done) < 50
    late = Context(None, time.monotonic() - 1)
    with configurations[name](), pytest.raises(TimeLimitError), under(late):
        map_blocks("late", slow, [(1,), (2,)])


def running(_: int) -> Context:
    return context()


@pytest.mark.parametrize("name", ["none", "threads", "dask"])
def test_tasks_see_no_limits_of_their_caller(name: str, configurations: dict[str, Configuration]) -> None:
    with configurations[name](), under(Context(None, time.monotonic() + 99)):
        assert map_blocks("contexts", running, [(0,), (1,)]) == [UNLIMITED, UNLIMITED]


def slower(value: int) -> int:
    time.sleep(0.4)
    return value


@pytest.mark.parametrize("name", ["threads", "dask"])
def test_the_deadline_passes_before_anything_is_done(
    name: str, configurations: dict[str, Configuration]
) -> None:
    watch = Context(None, time.monotonic() + 0.1)
    with configurations[name](), pytest.raises(TimeLimitError), under(watch):
        map_blocks("slower", slower, [(1,), (2,), (3,)])


def test_interrupts_wait_for_the_threads_that_run() -> None:
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    running = set[int]()

    def stubborn(value: int) -> int:
        running.add(value)
        if value == 0:
            time.sleep(0.02)
            for _ in range(3):  # an impatient user
                signal.pthread_kill(main_thread, signal.SIGINT)
                time.sleep(0.03)
        else:
            time.sleep(0.01)
        running.discard(value)
        return value

    with parallel_config("threading", n_jobs=2), pytest.raises(KeyboardInterrupt):
        map_blocks("stubborn", stubborn, [(value,) for value in range(50)])
    assert not running


def test_a_cluster_in_this_process_gives_the_same_rate_and_paths() -> None:
    fabric = parse("torus(3,3)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    expected = disjoint_paths(fabric, collective)
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            host="127.0.0.1",
            protocol="tcp://",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        parallel_config("dask", client=client),
    ):
        assert runs_apart()
        assert optimal_rate(fabric, collective).exact == optimal_rate(fabric, collective).upper
        found = disjoint_paths(fabric, collective)
    assert np.array_equal(found.links, expected.links)
