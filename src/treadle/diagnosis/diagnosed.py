"""Result values of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief
from treadle.diagnosis.cause import Cause
from treadle.diagnosis.limit_position import LimitPosition
from treadle.diagnosis.log import Log, ResultTable, TableRow
from treadle.diagnosis.reference_bandwidths import Limit
from treadle.diagnosis.verdict import Curve, Verdict
from treadle.notebook import displayed, own_repr
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.readers.imported import Imported
from treadle.topologies.topology import Topology

RING, OPTIMUM, IN_NETWORK = "ring", "optimum", "in-network"
"""Names of reference bandwidths."""


@brief("name", "share", "place")
@dataclass(frozen=True)
class ReferenceBandwidth:
    """A bandwidth that the measurement is compared with.

    Parameters
    ----------
    name : str
        ``ring``, ``optimum`` or ``in-network``.
    limit : Limit
    share : float
        Measured busbw over the limit's.
    place : LimitPosition
        Where the limit binds.
    is_whole : bool
        Of the whole fabric, where NCCL uses fewer of its NICs than there are.
    """

    name: str
    limit: Limit
    share: float
    place: LimitPosition
    is_whole: bool = False


@brief("collective", "n_ranks", "topology", "references", "above")
@dataclass(frozen=True)
class CheckedTable:
    """A table of the log compared with the fabric.

    Parameters
    ----------
    table : ResultTable
    collective : CollectiveKind
    n_ranks : int
    peak : TableRow
        The row with the highest busbw.
    topology : Topology
        As NCCL uses it: with the NICs that it uses.
    references : tuple of ReferenceBandwidth
        Ring, optimum and, where it applies, the in-network optimum; those of the whole fabric last.
    above : str
        What is said of a figure above the optimum; "" for others.
    is_low : bool
        Less than a healthy system reaches.
    verdict : Verdict
    curve : Curve, optional
        None for a few sizes.
    with_nvls : Limit, optional
        The optimum of an allreduce with NVLink SHARP, where GPUs can do that and the fabric leaves it out.
    """

    table: ResultTable
    collective: CollectiveKind
    n_ranks: int
    peak: TableRow
    topology: Topology
    references: tuple[ReferenceBandwidth, ...]
    above: str
    is_low: bool
    verdict: Verdict
    curve: Curve | None = None
    with_nvls: Limit | None = None

    def reference(self, name: str) -> ReferenceBandwidth | None:
        """Return the reference of that name, for the NICs in use."""
        return next((one for one in self.references if one.name == name and not one.is_whole), None)


@displayed(own_repr)
@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of a log on its fabric.

    Parameters
    ----------
    log : Log
    topology : Topology, optional
        The whole fabric; None if it is not known.
    imported : Imported, optional
        What was recognised in the log's system tree, where the fabric comes from that.
    assumed : tuple of str
        What was taken for granted of a fabric that comes from the log.
    checked_tables : tuple of CheckedTable
    unchecked_tables : tuple of (ResultTable, str)
        Tables that could not be checked, and why.
    causes : tuple of Cause
    used_nics, fabric_nics : int
        Of a box; 0 if not known.
    late : tuple of str
        References that were not computed in time.
    missing : str
        Why the fabric is unknown, and which option gives it; "" if it is known or no table was found.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> log = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) iters: 20 agg iters: 1\\n"
    >>> log += "#       size         count      type   redop    root     time   algbw   busbw #wrong\\n"
    >>> log += "  1073741824     268435456     float     sum      -1   5000.0  214.7  375.8      0\\n"
    >>> _ = Path("nccl.log").write_text(log)
    >>> treadle.diagnose("nccl.log", topology="dgx_h100:1", collective="allreduce")
    <Diagnosis allreduce 375.8 GB/s busbw, 84% of ring, 84% of optimum; causes: none>
    """

    log: Log
    topology: Topology | None
    imported: Imported | None
    assumed: tuple[str, ...]
    checked_tables: tuple[CheckedTable, ...]
    unchecked_tables: tuple[tuple[ResultTable, str], ...]
    causes: tuple[Cause, ...]
    used_nics: int
    fabric_nics: int
    late: tuple[str, ...]
    missing: str

    def __repr__(self) -> str:
        words = [
            f"{one.collective} {one.peak.busbw:g} GB/s busbw"
            + "".join(f", {yard.share:.0%} of {yard.name}" for yard in one.references if not yard.is_whole)
            for one in self.checked_tables[:1]
        ]
        names = ", ".join(dict.fromkeys(one.name for one in self.causes)) or "none"
        return f"<Diagnosis {'; '.join(words) or 'without a figure'}; causes: {names}>"[:200]
