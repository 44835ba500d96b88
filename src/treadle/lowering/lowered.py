"""Results of lowering."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.formats.loading import Loading
from treadle.formats.selection.supported_sizes import SupportedSizes
from treadle.formats.verdict import Check, Verdict
from treadle.simulation.point_to_point import PointToPointGap


class TargetFormat(StrEnum):
    """Names of the formats that come with Treadle: see `treadle.formats.format` for all of them.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.TargetFormat][:3]
    ['msccl-xml', 'mscclpp-json', 'cpu-xml']
    """

    MSCCL_XML = "msccl-xml"
    MSCCLPP_JSON = "mscclpp-json"
    CPU_XML = "cpu-xml"
    NCCL_GRAPH = "nccl-graph"
    CHAKRA = "chakra"
    ROUTES_JSON = "routes-json"
    ROUTES_CSV = "routes-csv"
    ROUTES_XML = "routes-xml"
    FORESTCOLL_XML = "forestcoll-xml"
    NCCL_TUNER = "nccl-tuner"


@brief("trees", "n_supported", "loss")
@dataclass(frozen=True)
class FriendlierTrees:
    """A number of trees per root whose runtime file would support more sizes.

    Parameters
    ----------
    trees : int
        Value for ``solve --trees``.
    n_supported : int
        Number of supported powers of two from 1 KB to 1 GB.
    loss : Fraction
        Least loss of throughput, as a share of the plan's.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("dgx_h100(3)", "allgather", trees=10)
    >>> better = treadle.lower(plan).friendlier
    >>> better.trees, better.n_supported, f"{float(better.loss):.1%}"
    (4, 21, '0.2%')
    """

    trees: int
    n_supported: int
    loss: Fraction


@brief("number", "name", "ranks")
@dataclass(frozen=True)
class LoweredGroup:
    """The group of ranks that a runtime file is for.

    Parameters
    ----------
    number : int
    ranks : tuple of int
        Ranks of the plan, in the order of the file's: it is for a communicator of these.
    name : str
        Number and ranks in one word, for file names.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("dgx_h100:1", "allgather", mesh="2,4", axes="1")
    >>> [(one.group.name, one.group.ranks) for one in treadle.planning.lower_groups(plan)][1]
    ('group1-ranks4-5-6-7', (4, 5, 6, 7))
    """

    number: int
    ranks: tuple[int, ...]
    name: str


@brief("dialect", "files", "n_operations", "n_chunks", "cautions")
@dataclass(frozen=True)
class Lowered:
    """Files for a runtime.

    Parameters
    ----------
    files : tuple of (str, bytes)
        Suffix of the name's stem, and content; a single file of exactly that name has the suffix "".
    verdict : Verdict
        How the files were verified after they were written, and the result.
    loading : Loading
        How a runtime loads the files, and how to check that it did.
    dialect : str
        Dialect of the files, if the format has several.
    name : str
        Name of the algorithm in the file, if the runtime identifies files by it.
    n_operations : int, optional
        Number of operations of the program; None if the files contain no program.
    n_chunks : int, optional
        Equal parts of the collective's buffer.
    plan_chunks : int, optional
        Parts that the plan's trees or steps need.
    rounding_loss : Fraction
        Throughput that is lost because trees carry unequal numbers of chunks, as a share of the plan's.
    supported : tuple of SupportedSizes
        Sizes for each selector that may ignore the file, the default one first; empty if all are supported.
    friendlier : FriendlierTrees, optional
        Trees that would support more sizes, if many are not supported.
    cautions : tuple of str
        Calls for which the runtime uses the file although it does not support them.
    shortfall : Shortfall, optional
        In-network operations of the plan that the file does not use, and their cost.
    group : LoweredGroup, optional
        The group that the file is for, in a plan of several concurrent groups.
    instances : int
        Concurrent copies of the schedule.
    carried_algbw : Fraction, optional
        Algbw (bytes/s) at which the busiest thread block reaches its bandwidth, if the plan's is higher.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.lower(treadle.solve("ring:4", "allgather"), to="msccl-xml")
    >>> found.verdict
    <Verdict executed, allgather, 4 ranks, 8 chunks>
    >>> found.text[:35]
    '<algo name="treadle" proto="Simple"'
    """

    files: tuple[tuple[str, bytes], ...]
    verdict: Verdict
    loading: Loading
    dialect: str = ""
    name: str = ""
    n_operations: int | None = None
    n_chunks: int | None = None
    plan_chunks: int | None = None
    rounding_loss: Fraction = Fraction(0)
    supported: tuple[SupportedSizes, ...] = ()
    friendlier: FriendlierTrees | None = None
    cautions: tuple[str, ...] = ()
    shortfall: PointToPointGap | None = None
    group: LoweredGroup | None = None
    instances: int = 1
    carried_algbw: Fraction | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Errors that the verifier found; empty unless Treadle has a defect."""
        return self.verdict.violations

    @property
    def checked(self) -> str:
        """Description of the verification."""
        return self.verdict.summary

    @property
    def is_executed(self) -> bool:
        """Whether the verifier executed the files."""
        return self.verdict.check is Check.EXECUTED

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """Content of the files: nouns and numbers."""
        return self.verdict.counts

    @property
    def text(self) -> str:
        """The content of the only file.

        Raises
        ------
        ScheduleError
            If there are several files, or the only one is binary.
        """
        if len(self.files) > 1:
            raise ScheduleError(f"{len(self.files)} files, expected one; use `files`")
        try:
            return self.files[0][1].decode()
        except UnicodeDecodeError:
            raise ScheduleError("the file is binary; use `files`") from None
