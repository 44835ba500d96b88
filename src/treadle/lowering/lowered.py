"""What lowering returns."""

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


@brief("trees", "n_served", "loss")
@dataclass(frozen=True)
class FriendlierTrees:
    """A number of trees per root whose text would serve more sizes.

    Parameters
    ----------
    trees : int
        k, for ``solve --trees``.
    n_served : int
        Of the powers of two from 1 KB to 1 GB.
    loss : Fraction
        Throughput that it costs at least, as a share of the plan's.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("dgx_h100(3)", "allgather", trees=10)
    >>> better = treadle.lower(plan).friendlier
    >>> better.trees, better.n_served, f"{float(better.loss):.1%}"
    (4, 21, '0.2%')
    """

    trees: int
    n_served: int
    loss: Fraction


@brief("number", "name", "ranks")
@dataclass(frozen=True)
class LoweredGroup:
    """Which of several groups of ranks a text is for.

    Parameters
    ----------
    number : int
    ranks : tuple of int
        Of the plan, in the order of the text's: it is for a communicator of these.
    name : str
        For files: the number and the ranks in a word.

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
        What to add to the name's stem, and the content; one file of the very name has the suffix "".
    judgement : Judgement
        What was done with the files after they were written, and what was found.
    loading : Loading
        How its runtime loads it, and how to see that it did.
    dialect : str
        Which of several the text is written in.
    name : str
        The algorithm's in the text, where the runtime tells texts apart by it.
    n_operations : int, optional
        Of the program that it expresses; None where it expresses none.
    n_chunks : int, optional
        Equal parts that the collective's buffer is cut into.
    plan_chunks : int, optional
        Those that the plan's trees or steps ask for.
    rounding_loss : Fraction
        Throughput that is lost because trees carry unequal numbers of chunks, as a share of the plan's.
    served : tuple of Served
        Of selectors that leave sizes aside, the one that loads the text first; empty where all are served.
    friendlier : FriendlierTrees, optional
        Where many sizes are left aside: trees that would serve more.
    cautions : tuple of str
        Calls that the runtime gives to the text and that it does not serve.
    shortfall : Shortfall, optional
        Where the plan leaves copies or sums to the network, which the text does not.
    group : LoweredGroup, optional
        Of a plan of several groups at once.
    instances : int
        Copies of the schedule side by side.
    carried_algbw : Fraction, optional
        Algbw, bytes/s, at which the busiest thread block moves as much as one carries, where the plan's is
        higher.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.lower(treadle.solve("ring:4", "allgather"), to="msccl-xml")
    >>> found.judgement
    <Judgement executed, allgather, 4 ranks, 8 chunks>
    >>> found.text[:35]
    '<algo name="treadle" proto="Simple"'
    """

    files: tuple[tuple[str, bytes], ...]
    judgement: Verdict
    loading: Loading
    dialect: str = ""
    name: str = ""
    n_operations: int | None = None
    n_chunks: int | None = None
    plan_chunks: int | None = None
    rounding_loss: Fraction = Fraction(0)
    served: tuple[SupportedSizes, ...] = ()
    friendlier: FriendlierTrees | None = None
    cautions: tuple[str, ...] = ()
    shortfall: PointToPointGap | None = None
    group: LoweredGroup | None = None
    instances: int = 1
    carried_algbw: Fraction | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """What the judge found wrong; empty unless Treadle has a defect."""
        return self.judgement.violations

    @property
    def checked(self) -> str:
        """What was done with the files after they were written, in words."""
        return self.judgement.summary

    @property
    def is_executed(self) -> bool:
        """Whether that was to execute them."""
        return self.judgement.check is Check.EXECUTED

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """What the files consist of: nouns and how many."""
        return self.judgement.counts

    @property
    def text(self) -> str:
        """The content of the only file.

        Raises
        ------
        ScheduleError
            If there are several, or it is binary.
        """
        if len(self.files) > 1:
            raise ScheduleError(f"{len(self.files)} files are no single text; use `files`")
        try:
            return self.files[0][1].decode()
        except UnicodeDecodeError:
            raise ScheduleError("the file is binary; use `files`") from None
