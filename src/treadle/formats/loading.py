"""Where an emitted text is loaded, and how to see that it was: runtimes ignore files silently."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from shlex import quote

from treadle.formats.msccl.writer import Profile
from treadle.formats.mscclpp.recipe import CALLED, direct_recipe, recipe
from treadle.formats.selection.served import Selector, TextFacts, served


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
    """

    runtime: str
    environment: tuple[tuple[str, str], ...]
    check: str
    fallback: str
    prepare: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


def msccl_loading(
    path: str, profile: Profile, facts: TextFacts, *, in_place: bool, in_own_folder: bool
) -> Loading:
    """How the MSCCL runtimes load an XML.

    Parameters
    ----------
    path : str
        Of the file, as it will be found on the cluster.
    profile : Profile
    facts : TextFacts
        Of the text.
    in_place : bool
        Which calls the text serves.
    in_own_folder : bool
        Whether the file's folder holds nothing but such texts: all but the legacy runtime parse every file.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind
    >>> facts = TextFacts(CollectiveKind.ALLREDUCE, 2, 4)
    >>> loading = msccl_loading("two.xml", Profile.AZURE, facts, in_place=False, in_own_folder=False)
    >>> loading.prepare
    ('mkdir -p two.msccl', 'cp two.xml two.msccl/')
    >>> dict(loading.environment)["MSCCL_ALGO_DIR"]
    'two.msccl'
    """
    where = _where(facts, in_place)
    if profile is Profile.LEGACY:
        rule = served(facts, Selector.LEGACY).rule
        return Loading(
            runtime="msccl (NCCL with the MSCCL interpreter)",
            environment=(
                ("MSCCL_XML_FILES", path),
                ("NCCL_ALGO", "MSCCL,RING,TREE"),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "INIT,ENV"),
            ),
            check="every rank logs 'Connected 1 MSCCL algorithms'",
            fallback=f"all but {rule}{where}; averages, and calls within a group of several",
        )
    folder = str(PurePath(path).parent)
    prepare: tuple[str, ...] = ()
    if not in_own_folder:
        folder = str(PurePath(path).with_suffix(".msccl"))
        prepare = (f"mkdir -p {quote(folder)}", f"cp {quote(path)} {quote(folder)}/")
    if profile is Profile.RCCL:
        return Loading(
            runtime="RCCL (a release with MSCCL)",
            environment=(
                ("RCCL_MSCCL_FORCE_ENABLE", "1"),
                ("MSCCL_ALGO_DIR", folder),
                ("NCCL_DEBUG", "INFO"),
            ),
            check=f"every rank logs 'Using MSCCL files from {folder}'; it ends at a file that is none",
            fallback=f"all but {served(facts, Selector.RCCL).rule}{where}; averages",
            prepare=prepare,
        )
    return Loading(
        runtime="msccl-executor-nccl (in place of NCCL)",
        environment=(("NCCL_MSCCL_ENABLE", "1"), ("MSCCL_ALGO_DIR", folder), ("NCCL_DEBUG", "INFO")),
        check=f"every rank logs 'Using MSCCL Algo files from {folder}'; it ends at a file that is none",
        fallback=f"all but {served(facts, Selector.AZURE).rule}{where}; averages, and processes with several "
        "GPUs",
        prepare=prepare,
    )


def _where(facts: TextFacts, in_place: bool) -> str:
    """The calls that a text of MSCCL is for, besides the rule of their counts."""
    limits = [f"of at least {facts.min_bytes} bytes"] if facts.min_bytes else []
    limits += [f"of at most {facts.max_bytes} bytes"] if facts.max_bytes else []
    return ", ".join(["", *limits, "in place" if in_place else "out of place"])


def mscclpp_loading(path: str, name: str, facts: TextFacts, *, root: int, in_place: bool) -> Loading:
    """How MSCCL++ loads an execution plan.

    Parameters
    ----------
    path, name : str
        Of the plan.
    facts : TextFacts
    root : int
        Of a broadcast or reduce, else -1.
    in_place : bool

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind
    >>> facts = TextFacts(CollectiveKind.ALLREDUCE, 8, 8)
    >>> mscclpp_loading("two.json", "two", facts, root=-1, in_place=False).code[1]
    'plan = mscclpp.ExecutionPlan(\'two.json\', int(os.environ["RANK"]))'
    """
    if facts.kind not in CALLED:
        return Loading(
            runtime=f"MSCCL++ (its executor: the NCCL interface hands no {facts.kind} to plans)",
            environment=(("MSCCLPP_LOG_LEVEL", "INFO"),),
            check=f"the log says 'Starting execution with plan: {name}'",
            fallback=f"nothing: all but {served(facts, Selector.MSCCLPP).rule} is an error",
            code=direct_recipe(path),
        )
    return Loading(
        runtime="MSCCL++ (as NCCL; in every process, before init_process_group('nccl'))",
        environment=(
            ("LD_PRELOAD", "libmscclpp_nccl.so"),
            ("MSCCLPP_NCCL_LIB_PATH", "libnccl.so.2"),
            ("MSCCLPP_LOG_LEVEL", "INFO"),
        ),
        check=f"every call that it serves logs 'Starting execution with plan: {name}'",
        fallback="what `select` leaves aside goes to NCCL; without `select` a size that the chunks do not "
        "divide into whole 16 bytes is an error",
        code=recipe(path, name, facts, root=root, in_place=in_place),
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
