"""Where an emitted text is loaded, and how to see that it was: runtimes ignore files silently."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from treadle.lowering.msccl_xml import Profile


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
        When the runtime leaves the file aside without an error.
    """

    runtime: str
    environment: tuple[tuple[str, str], ...]
    check: str
    fallback: str


def msccl_loading(path: str, profile: Profile, n_chunks: int) -> Loading:
    """How the MSCCL runtimes load an XML.

    Parameters
    ----------
    path : str
        Of the file, as it will be found on the cluster.
    profile : Profile
    n_chunks : int
        Element counts that do not divide by it are left to the runtime's own algorithms.

    Examples
    --------
    >>> dict(msccl_loading("two.xml", Profile.LEGACY, 4).environment)["MSCCL_XML_FILES"]
    'two.xml'
    """
    fallback = (
        f"buffers of a number of elements that {n_chunks} does not divide, sizes outside minBytes to "
        "maxBytes, and calls in place where the text says out of place (or the other way)"
    )
    if profile is Profile.LEGACY:
        return Loading(
            runtime="msccl (NCCL with the MSCCL interpreter)",
            environment=(
                ("MSCCL_XML_FILES", path),
                ("NCCL_ALGO", "MSCCL,RING,TREE"),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "INIT,ENV"),
            ),
            check="every rank logs 'Connected 1 MSCCL algorithms'",
            fallback=fallback,
        )
    folder = str(PurePath(path).parent)
    is_rccl = profile is Profile.RCCL
    return Loading(
        runtime="RCCL" if is_rccl else "msccl-executor-nccl, with msccl-scheduler in LD_PRELOAD",
        environment=(
            ("RCCL_MSCCL_FORCE_ENABLE" if is_rccl else "NCCL_MSCCL_ENABLE", "1"),
            ("MSCCL_ALGO_DIR", folder),
            ("NCCL_DEBUG", "INFO"),
        ),
        check="the log names the folder that MSCCL's files are read from "
        f"(the scheduler: 'Using MSCCL Algo files from {folder}'); every file in it is read",
        fallback=fallback,
    )


def mscclpp_loading(path: str, name: str) -> Loading:
    """How MSCCL++ loads an execution plan.

    Examples
    --------
    >>> mscclpp_loading("plans/two.json", "two").environment[1]
    ('MSCCLPP_EXECUTION_PLAN_DIR', 'plans')
    """
    return Loading(
        runtime="MSCCL++ (its NCCL interface, libmscclpp_nccl.so)",
        environment=(
            ("LD_PRELOAD", "libmscclpp_nccl.so"),
            ("MSCCLPP_EXECUTION_PLAN_DIR", str(PurePath(path).parent)),
            ("MSCCLPP_DEBUG", "INFO"),
        ),
        check=f"mscclpp's Python: ExecutionPlan({path!r}, rank).name is {name!r}; then compare times with "
        "the folder's variable unset",
        fallback="sizes outside min_message_size to max_message_size, or whose chunks are no multiples of 16 "
        "bytes, and calls whose buffers are in place where the plan says out of place",
    )


def cpu_loading(path: str, n_ranks: int) -> Loading:
    """How an interpreter over MPI reads a CPU XML; ours is the reference.

    Examples
    --------
    >>> cpu_loading("two.xml", 2).environment
    ()
    """
    return Loading(
        runtime="CPU interpreters over MPI or UCX (send, recv, reduce, copy and sync)",
        environment=(),
        check=f"mpirun -n {n_ranks} python -m mpi4py -m treadle.runtime.mpi_text {path} checks every element",
        fallback="nothing: any number of elements and every size is served",
    )


def cpu_part_loading(path: str) -> Loading:
    """How the part of one rank is read.

    Examples
    --------
    >>> cpu_part_loading("part.xml").check
    'treadle verify part.xml plays it alone'
    """
    return Loading(
        runtime="CPU interpreters over MPI or UCX (each rank its own part)",
        environment=(),
        check=f"treadle verify {path} plays it alone",
        fallback="nothing: any number of elements and every size is served",
    )


def nccl_graph_loading(path: str, channels: int, n_files: int) -> Loading:
    """How NCCL loads a graph file.

    Examples
    --------
    >>> nccl_graph_loading("ring.xml", 2, 1).environment[0]
    ('NCCL_GRAPH_FILE', 'ring.xml')
    """
    here = path if n_files == 1 else f"{path} with .boxN before its ending, N the number of the host"
    return Loading(
        runtime="NCCL",
        environment=(
            ("NCCL_GRAPH_FILE", here),
            ("NCCL_ALGO", "Ring"),
            ("NCCL_CROSS_NIC", "1"),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "INIT,ENV,GRAPH"),
        ),
        check=f"every rank logs 'Search 0 : {channels} channels loaded from XML graph'; device and card "
        "numbers are those of the host",
        fallback="tree, CollNet and NVLS algorithms, whose graphs the file does not hold (so NCCL_ALGO=Ring)",
    )


def chakra_loading(path: str) -> Loading:
    """How a simulator such as ASTRA-sim loads Chakra traces.

    Examples
    --------
    >>> chakra_loading("ring").environment
    ()
    """
    prefix = str(PurePath(path).with_suffix(""))
    return Loading(
        runtime="simulators that read Chakra execution traces (ASTRA-sim)",
        environment=(),
        check=f"--workload-configuration={prefix} (files {prefix}.RANK.et); every rank reports its end",
        fallback="nothing: a trace that cannot be read is an error",
    )
