"""A diagnosis as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treadle.diagnosis.log_lines import LogLine
from treadle.planning.summary import exact_text

if TYPE_CHECKING:
    from treadle.diagnosis.suspect import Suspect
    from treadle.planning.measuring.diagnosed import Diagnosis, JudgedTable, Yardstick
    from treadle.topologies.topology import Topology

MOST_LINKS = 64
"""Of a cut that are listed."""


def diagnosis_summary(found: Diagnosis) -> dict[str, object]:
    """What ``diagnose --json`` prints."""
    log = found.log
    values: dict[str, object] = {
        "log": log.source,
        "lines": log.n_lines,
        "nccl_version": log.version or None,
        "tables": len(log.tables),
        "judgements": [_judgement(one) for one in found.judgements],
        "unjudged": [
            {"line": table.rows[0].line.number, "reason": reason} for table, reason in found.unjudged
        ],
        "suspects": [_suspect(one) for one in found.suspects],
        "nccl_warnings": log.n_warnings,
        "warnings": [_line(line) for line in log.warnings],
    }
    if found.topology is not None:
        values["topology"] = found.topology.name
        values["ranks"] = len(found.topology.compute_nodes)
        values["from_log"] = found.imported is not None
        values["assumed"] = list(found.assumed)
    if found.imported is not None:
        values["recognised"] = dict(found.imported.recognised)
        values["defaulted"] = [str(one) for one in found.imported.defaulted]
        values["doubts"] = [str(one) for one in found.imported.warnings]
    if found.fabric_nics:
        values |= {"nics_used": found.used_nics, "nics_of_fabric": found.fabric_nics}
    if found.late:
        values["late"] = list(found.late)
    if found.missing:
        values["missing"] = found.missing
    return values


def _line(line: LogLine) -> Mapping[str, object]:
    return {"line": line.number, "text": line.text}


def _suspect(found: Suspect) -> Mapping[str, object]:
    return {
        "suspect": found.name,
        "text": found.text,
        "evidence": [_line(line) for line in found.lines],
        "remedy": found.remedy,
    }


def _judgement(found: JudgedTable) -> Mapping[str, object]:
    peak = found.peak
    return {
        "line": found.table.rows[0].line.number,
        "collective": found.collective,
        "ranks": found.n_ranks,
        "peak": {
            "size_bytes": peak.size,
            "busbw_bytes_per_s": peak.busbw * 1e9,
            "algbw_bytes_per_s": peak.algbw * 1e9,
            "line": peak.line.number,
        },
        **({} if found.table.average is None else {"average_busbw_bytes_per_s": found.table.average * 1e9}),
        "yardsticks": [_yardstick(found.topology, one) for one in found.yardsticks],
        "healthy": not found.is_low,
        **({"above": found.above} if found.above else {}),
    }


def _yardstick(topology: Topology, found: Yardstick) -> Mapping[str, object]:
    limit = found.limit
    values: dict[str, object] = {
        "name": found.name,
        "nics": "all" if found.is_whole else "in use",
        "busbw_bytes_per_s": float(limit.busbw),
        "busbw_exact": exact_text(limit.busbw),
        "share": found.share,
        "binds": found.place,
    }
    if limit.links and not found.is_whole:
        names = [topology.link_name(link) for link in limit.links[:MOST_LINKS]]
        if limit.is_priced:
            values["priced_links"] = names
        else:
            values |= {"cut_bytes_per_s": limit.capacity, "cut_links": names}
    return values
