"""Compare a measured collective with what its fabric can do, and find why it is slower."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from treadle.checking import checked
from treadle.context import Progress, context, in_context
from treadle.diagnosis.device_fabric import LogFabric
from treadle.diagnosis.diagnosed import Diagnosis
from treadle.diagnosis.examination import Examination
from treadle.diagnosis.log import Log
from treadle.diagnosis.log_fabric import fabric_of_log
from treadle.diagnosis.log_reader import read_log
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.importing import import_options
from treadle.inputs.problem import resolve_kind
from treadle.options.keywords import ImportKeywords
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.expressions import parse_imported
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


@checked()
@in_context()
def diagnose(
    log: str | Path | Log,
    *,
    topology: FabricLike | None = None,
    collective: CollectiveKind | str | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[ImportKeywords],
) -> Diagnosis:
    """Hold a log of nccl-tests against its fabric, and say what makes it slow.

    Parameters
    ----------
    log : str, Path or Log
        Output of nccl-tests, with NCCL's own lines (``NCCL_DEBUG=INFO``) where there are any; at most
        256 MiB.
    topology : Topology, Path or str, optional
        The fabric, rank by rank as in the log: a value, a catalogue expression or a file of any known
        format. Default: made of the system tree in the log.
    collective : CollectiveKind or str, optional
        Where the log does not say.
    time_limit_s : float, optional
        Seconds for bounds; references that are not known by then are left out.
    progress : callable, optional
        progress(stage, done, total).
    **keywords
        What the log's system tree, or the file, does not say: ``boxes``, ``network``, ``nic_bandwidth`` and
        others of `treadle.topologies.readers.imported.ImportOptions`.

    Raises
    ------
    FormatError
        If the log cannot be read or is none, or the fabric has another number of ranks.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> log = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) iters: 20 agg iters: 1\\n"
    >>> log += "#       size         count      type   redop    root     time   algbw   busbw #wrong\\n"
    >>> log += "  1073741824     268435456     float     sum      -1   5000.0  214.7  375.8      0\\n"
    >>> _ = Path("nccl.log").write_text(log)
    >>> found = treadle.diagnose("nccl.log", topology="dgx_h100:1", collective="allreduce")
    >>> found.checked_tables[0].reference("ring"), found.causes
    (<ReferenceBandwidth ring, share 0.8351, the GPUs' links within a box>, ())
    """
    fabric_given = None if topology is None else as_fabric(topology, "diagnose: topology")
    with context().stage("log"):
        read = log if isinstance(log, Log) else read_log(log)
    kind = None if collective is None else resolve_kind(collective)
    with context().stage("fabric"):
        fabric = _fabric(read, fabric_given, keywords)
    with context().stage("bounds"):
        return Examination(read, fabric, kind).diagnosis()


def _fabric(log: Log, topology: Topology | str | None, keywords: ImportKeywords) -> LogFabric | Unsupported:
    if topology is None:
        return fabric_of_log(log, import_options(**keywords))
    if isinstance(topology, Topology):
        return LogFabric(topology)
    return LogFabric(parse_imported(topology, options=import_options(**keywords)).topology)
