"""Reads a whole log: tables of nccl-tests and lines of NCCL, of many hosts and ranks through each other."""

from __future__ import annotations

from pathlib import Path

from treadle.diagnosis.library_lines import FactReader
from treadle.diagnosis.log import Log
from treadle.diagnosis.log_lines import messages
from treadle.diagnosis.result_tables import TableReader
from treadle.errors import FormatError


def read_log(path: Path | str) -> Log:
    """Read a log, line by line, in bounded memory.

    Parameters
    ----------
    path : Path or str
        Output of nccl-tests with or without ``NCCL_DEBUG=INFO``, as it came: of one or many processes, with
        the prefixes of mpirun or srun, coloured or cut off. At most 256 MiB.

    Raises
    ------
    FormatError
        If it cannot be read, is larger, or has no line of nccl-tests or NCCL.
    """
    tables, facts = TableReader(), FactReader()
    number = 0
    for message in messages(path):
        number = message.number
        facts.take(message)
        if not message.level:
            tables.take(message)
    found = tables.tables()
    if not found and not facts.n_messages and not tables.ranks:
        raise FormatError(
            "has no line of nccl-tests or of NCCL; expected what nccl-tests prints, with NCCL_DEBUG=INFO for "
            "more to go by",
            source=str(path),
        )
    return Log(
        source=str(path),
        n_lines=number,
        tables=found,
        version=facts.version,
        n_ranks=facts.n_ranks,
        n_nodes=facts.n_nodes,
        hosts=tuple(facts.hosts),
        ranks=dict(tables.ranks),
        rank_hosts=dict(facts.rank_hosts),
        networks=tuple(facts.networks),
        transports=facts.transports,
        hops=tuple(facts.hops),
        patterns=tuple(facts.patterns),
        ring_ends=tuple(facts.ring_ends),
        channels=tuple(facts.channels),
        settings=tuple(facts.settings.values()),
        trees=facts.trees,
        remarks=dict(facts.remarks),
        warnings=tuple(facts.warnings),
        n_warnings=facts.n_warnings,
    )
