"""Plans of jobs that run at once, in a folder: the fabric, a plan for each job, what they claim together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from treadle.atomic import new_folder, write_bytes
from treadle.brief import brief
from treadle.errors import FormatError
from treadle.input_files import parse_json, read_input_string
from treadle.schedulers.jobs.job_plans import JobsResult
from treadle.schedules.collective import Collective
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.jobs import Job, JobLevel
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.plan_files.manifest_values import (
    format_fraction,
    read_fraction,
    read_list,
    read_object,
    read_string,
    read_wholes,
)
from treadle.schedules.transfer import transfer_collective
from treadle.topologies.files import load_topology, save_topology
from treadle.topologies.topology import Topology
from treadle.verification.jobs_check import JobsReport, verify_jobs

LIST = "jobs.json"
FABRIC = "fabric.json"
MAX_LIST_BYTES = 2**26


@brief("topology", "jobs", "plans", "rates")
@dataclass(frozen=True)
class StoredJobs:
    """What a folder holds; nothing of it is checked yet.

    Parameters
    ----------
    topology : Topology
        The fabric that all jobs share.
    jobs : tuple of Job
    plans : tuple of Plan
    rates : tuple of Fraction
        Claimed, bytes/s.
    levels : tuple of JobLevel

    Examples
    --------
    >>> from pathlib import Path
    >>> from treadle import planning
    >>> _ = Path("jobs.toml").write_text('[[job]]\\nkind = "allgather"\\n[[job]]\\nkind = "alltoall"\\n')
    >>> _ = planning.save_jobs("plans", planning.solve_jobs("ring:4", "jobs.toml"))
    >>> stored = planning.load_jobs("plans")
    >>> stored.rates, stored.verified().is_max_min
    ((Fraction(8, 7), Fraction(8, 7)), True)
    """

    topology: Topology
    jobs: tuple[Job, ...]
    plans: tuple[Plan, ...]
    rates: tuple[Fraction, ...]
    levels: tuple[JobLevel, ...]

    def verified(self, topology: Topology | None = None) -> JobsReport:
        """What the independent verifier says of all of it, on the fabric inside or one that is trusted."""
        fabric = self.topology if topology is None else topology
        return verify_jobs(fabric, self.jobs_on(fabric), self.plans, self.rates, self.levels)

    def jobs_on(self, topology: Topology) -> tuple[Job, ...]:
        """The jobs on the nodes of the same names; TopologyError if one is missing."""
        return tuple(
            replace(job, collective=transfer_collective(job.collective, self.topology, topology))
            for job in self.jobs
        )


def save_jobs(folder: Path | str, result: JobsResult) -> list[Path]:
    """Write a plan for each job, the fabric, and last the list that names them; the files, in that order.

    Raises
    ------
    FormatError
        If the folder cannot be written; nothing is left of one that was made for it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from treadle import planning
    >>> _ = Path("jobs.toml").write_text('[[job]]\\nkind = "allgather"\\n[[job]]\\nkind = "alltoall"\\n')
    >>> found = planning.solve_jobs("ring:4", "jobs.toml")
    >>> [path.name for path in planning.save_jobs("plans", found)]
    ['0000-1-allgather.plan', '0001-2-alltoall.plan', 'fabric.json', 'jobs.json']
    """
    with new_folder(folder) as folder:
        rows, written = [], []
        triples = zip(result.jobs, result.plans, result.reached, strict=True)
        for number, (job, plan, rate) in enumerate(triples):
            name = f"{number:04d}-{re.sub('[^A-Za-z0-9_.-]+', '-', job.name)[:60]}.plan"
            written.append(folder / name)
            save_plan(written[-1], plan)
            rows.append(
                {
                    "name": job.name,
                    "plan": name,
                    "weight": format_fraction(job.weight),
                    "rate": format_fraction(rate),
                }
            )
        written.append(folder / FABRIC)
        save_topology(written[-1], result.topology)
        levels = [
            {
                "rate": format_fraction(level.rate),
                "limited": list(level.limited),
                "lengths": GroupDualCertificate(level.lengths).to_json(),
            }
            for level in result.levels
        ]
        listed = {"treadle": "jobs", "version": 1, "fabric": FABRIC, "jobs": rows, "levels": levels}
        written.append(folder / LIST)
        write_bytes(written[-1], (json.dumps(listed, indent=1) + "\n").encode())
        return written


def load_jobs(folder: Path | str) -> StoredJobs:
    """Read what `save_jobs` wrote.

    Raises
    ------
    FormatError
        If the folder holds anything else; one line with the file's name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from treadle import planning
    >>> _ = Path("jobs.toml").write_text('[[job]]\\nkind = "allgather"\\n[[job]]\\nkind = "alltoall"\\n')
    >>> _ = planning.save_jobs("plans", planning.solve_jobs("ring:4", "jobs.toml"))
    >>> planning.load_jobs("plans")
    <StoredJobs ring(4), 2 jobs, 2 plans, 2 rates>
    """
    folder = Path(folder)
    path = folder / LIST
    values = parse_json(read_input_string(path, MAX_LIST_BYTES, expected="a list of jobs"), source=str(path))
    try:
        return _stored(folder, values)
    except FormatError as error:
        if str(folder) in str(error):
            raise
        raise FormatError(str(error), source=str(path)) from None


def _stored(folder: Path, values: Any) -> StoredJobs:
    fields = read_object(values, LIST, {"treadle", "version", "fabric", "jobs", "levels"})
    if (fields["treadle"], fields["version"], fields["fabric"]) != ("jobs", 1, FABRIC):
        raise FormatError("expected a list of jobs of version 1")
    topology = load_topology(folder / FABRIC)
    jobs, plans, rates = [], [], []
    for number, row in enumerate(read_list(fields["jobs"], "jobs")):
        place = f"jobs[{number}]"
        entry = read_object(row, place, {"name", "plan", "weight", "rate"})
        name = read_string(entry["plan"], f"{place}.plan")
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}\.plan", name) or name.startswith("."):
            raise FormatError(f"{place}.plan: {name[:60]!r} is no file of this folder")
        plans.append(load_plan(folder / name))
        rates.append(read_fraction(entry["rate"], f"{place}.rate"))
        jobs.append(
            Job(
                read_string(entry["name"], f"{place}.name"),
                _on_fabric(plans[-1], topology, place),
                read_fraction(entry["weight"], f"{place}.weight"),
            )
        )
    levels = tuple(
        _level(row, f"levels[{number}]") for number, row in enumerate(read_list(fields["levels"], "levels"))
    )
    return StoredJobs(topology, tuple(jobs), tuple(plans), tuple(rates), levels)


def _on_fabric(plan: Plan, topology: Topology, place: str) -> Collective:
    """The plan's collective on the nodes of the same names."""
    number = {name: node for node, name in enumerate(topology.node_names)}

    def nodes(given: Sequence[int]) -> tuple[int, ...]:
        names = [plan.topology.node_names[node] for node in given]
        missing = [name for name in names if name not in number]
        if missing:
            raise FormatError(f"{place}: node {missing[0][:60]!r} of its plan is not in {FABRIC}")
        return tuple(number[name] for name in names)

    made = plan.collective
    return Collective(
        made.kind,
        nodes(made.ranks),
        root=made.root,
        weights=made.weights,
        forwarders=nodes(made.forwarders),
        demands=made.demands,
    )


def _level(value: Any, place: str) -> JobLevel:
    fields: Mapping[str, Any] = read_object(value, place, {"rate", "limited", "lengths"})
    lengths = fields["lengths"]
    if not isinstance(lengths, dict):
        raise FormatError(f"{place}.lengths: expected an object")
    return JobLevel(
        read_fraction(fields["rate"], f"{place}.rate"),
        read_wholes(fields["limited"], f"{place}.limited"),
        GroupDualCertificate.from_json(lengths).lengths,
    )
