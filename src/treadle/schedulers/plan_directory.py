"""Plan files, of a directory or one, found by what they answer: fabric, ranks, collective, sizes."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.errors import FormatError, TreadleError
from treadle.input_files import open_input, parse_json
from treadle.inputs.group_plans import plan_of_group
from treadle.inputs.verification import check_plan
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.plan_files.budget import MAX_MEMORY, MemoryBudget, json_bytes
from treadle.schedules.plan_files.manifest_values import (
    read_integer,
    read_list,
    read_optional,
    read_string,
    read_wholes,
)
from treadle.schedules.plan_files.members import MemberReader
from treadle.schedules.plan_files.plan_reader import MAX_MANIFEST
from treadle.topologies.files import topology_hash
from treadle.topologies.topology import Topology

MAX_FILES = 10_000
"""Most plan files of a directory that are looked at."""

_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
)
"""Exceptions of zipfile on damaged input."""


@dataclass(frozen=True)
class PlanListing:
    """Problem that a plan file claims to solve, unchecked.

    Parameters
    ----------
    path : Path
    topology_sha256 : str
        Of the fabric, without absent nodes, as `topology_hash`.
    kind : CollectiveKind
    ranks : tuple of int
        Node of each rank.
    root : int, optional
    sizes : tuple of (int, int or None)
        Smallest and largest size in bytes of each of its schedules.
    groups : tuple of tuples of int, optional
        For concurrent groups: nodes of the ranks of each.
    """

    path: Path
    topology_sha256: str
    kind: CollectiveKind
    ranks: tuple[int, ...]
    root: int | None
    sizes: tuple[tuple[int, int | None], ...]
    groups: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class PlanIndex:
    """The plan files of a directory.

    Parameters
    ----------
    listings : tuple of PlanListing
        By file name.
    problems : tuple of str
        A line for each file that is not a plan file.
    """

    listings: tuple[PlanListing, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class DirectoryPlans:
    """Plans of an index for one fabric and collective.

    Parameters
    ----------
    plans : tuple of (Path, Plan)
        By file name; verified on the fabric.
    problems : tuple of str
        A line for each file that claims to answer but is damaged or fails verification.
    """

    plans: tuple[tuple[Path, Plan], ...]
    problems: tuple[str, ...]


def index_plans(directory: str | Path) -> PlanIndex:
    """List the files ``*.plan`` of a directory, or one such file, by their manifests.

    Raises
    ------
    FormatError
        If the directory cannot be read, or has more than `MAX_FILES` of them.
    """
    try:
        place = Path(directory)
        is_one = place.suffix == ".plan" and place.is_file()
        paths = [place] if is_one else sorted(path for path in place.iterdir() if path.suffix == ".plan")
    except OSError as error:
        raise FormatError(
            f"no readable directory of plans ({error.strerror}); make it, or name another",
            source=str(directory),
        ) from None
    if len(paths) > MAX_FILES:
        raise FormatError(
            f"{len(paths)} plan files, at most {MAX_FILES} are looked at; move some elsewhere",
            source=str(directory),
        )
    listings, problems = [], []
    for path in paths:
        try:
            listings.append(_listing(path))
        except TreadleError as error:
            problems.append(str(error))
    return PlanIndex(tuple(listings), tuple(problems))


def find_plans(index: PlanIndex, topology: Topology, collective: Collective) -> DirectoryPlans:
    """Load the plans of an index that support a collective on a fabric, and verify each there.

    Parameters
    ----------
    index : PlanIndex
    topology : Topology
        Without absent nodes, as `treadle.inputs.problem.make_problem` leaves it.
    collective : Collective

    Notes
    -----
    A listing is only a claim: what counts is the fabric and the collective inside the loaded plan, and that
    the verifier finds every schedule and claim of it true on `topology`.
    """
    wanted = (collective.kind, collective.ranks, collective.root)
    listings = [one for one in index.listings if (one.kind, one.ranks, one.root) == wanted]
    plans, problems = _loaded(listings, topology)
    # also weights, demands and forwarders
    return DirectoryPlans(tuple(found for found in plans if found[1].collective == collective), problems)


def find_group_plans(index: PlanIndex, topology: Topology, collective: Collective) -> DirectoryPlans:
    """Return the part of plans of concurrent groups that belongs to one group.

    Parameters
    ----------
    index : PlanIndex
    topology : Topology
        The whole fabric.
    collective : Collective
        Of the group, its ranks in the order of the plans' group.

    Returns
    -------
    DirectoryPlans
        The group's part of each, as `treadle.inputs.group_plans.plan_of_group` makes it; verified with all
        groups.
    """
    posed, ranks = (collective.kind, collective.root), collective.ranks
    listings = [
        one for one in index.listings if (one.kind, one.root) == posed and ranks in (one.groups or ())
    ]
    loaded, problems = _loaded(listings, topology)
    plans = []
    for path, plan in loaded:
        made = plan.collective
        found = [tuple(made.ranks[rank] for rank in group) for group in made.groups or ()]
        if (made.kind, made.root) == posed and ranks in found:
            plans.append((path, plan_of_group(plan, found.index(ranks))))
    return DirectoryPlans(tuple(plans), problems)


def _loaded(
    listings: Iterable[PlanListing], topology: Topology
) -> tuple[list[tuple[Path, Plan]], tuple[str, ...]]:
    """Plans of those listings that are for a fabric, verified there, and a line for each that fails."""
    digest = topology_hash(topology)
    plans, problems = [], []
    for path in (one.path for one in listings if one.topology_sha256 == digest):
        try:
            plan = load_plan(path)
            if topology_hash(plan.topology) != digest:
                continue
            reports = check_plan(plan, topology).reports
        except TreadleError as error:
            problems.append(str(error))
            continue
        wrong = [violation for report in reports for violation in report.violations]
        if wrong or not all(report.is_ok for report in reports):
            problems.append(f"{path}: fails verification ({wrong[0] if wrong else 'no throughput'})")
        else:
            plans.append((path, plan))
    return plans, tuple(problems)


def has_gap(sizes: Sequence[tuple[int, int | None]]) -> bool:
    """Whether some size from 0 on lies in none of the ranges.

    Examples
    --------
    >>> has_gap([(0, 99), (100, None)]), has_gap([(0, 98), (100, None)])
    (False, True)
    """
    covered = 0
    for low, high in sorted(sizes, key=lambda span: span[0]):
        if low > covered:
            return True
        if high is None:
            return False
        covered = max(covered, high + 1)
    return True


def _listing(path: Path) -> PlanListing:
    source = str(path)
    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            budget = MemoryBudget(MAX_MEMORY)
            text = MemberReader(archive, budget).string("manifest.json", MAX_MANIFEST)
            budget.charge(json_bytes(text))
        return _from_manifest(path, parse_json(text))
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
    except _UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FormatError(f"no readable plan file: {reason}", source=source) from None


def _from_manifest(path: Path, manifest: Any) -> PlanListing:
    try:
        if manifest["treadle"] != "plan":
            raise FormatError('manifest: expected "treadle": "plan"')
        collective = manifest["collective"]
        ranks = tuple(read_wholes(collective["ranks"], "ranks"))
        return PlanListing(
            path=path,
            topology_sha256=read_string(manifest["topology_sha256"], "topology_sha256"),
            kind=CollectiveKind(collective["kind"]),
            ranks=ranks,
            root=read_optional(collective["root"], read_integer, "root"),
            sizes=tuple(_size_range(entry) for entry in read_list(manifest["entries"], "entries")),
            groups=_groups(collective.get("groups"), ranks),
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise FormatError(f"manifest: {type(error).__name__} {error}") from None


def _size_range(entry: Any) -> tuple[int, int | None]:
    low = read_integer(entry["min_bytes"], "min_bytes")
    return low, read_optional(entry["max_bytes"], read_integer, "max_bytes")


def _groups(value: Any, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Return the nodes of each group's ranks; None without groups."""
    if value is None:
        return None
    groups = [tuple(read_wholes(group, "group")) for group in read_list(value, "groups")]
    return tuple(tuple(ranks[rank] for rank in group) for group in groups)
