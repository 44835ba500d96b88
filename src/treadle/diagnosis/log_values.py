"""Facts derived from a log: the collective, and the numbers of ranks, NICs and NVLinks."""

from __future__ import annotations

import re

from treadle.diagnosis.log import OTHER_TESTS, TESTS, Log, ResultTable
from treadle.diagnosis.log_lines import LogLine
from treadle.schedules.collective import CollectiveKind
from treadle.unsupported import Unsupported


def kind_of(table: ResultTable) -> CollectiveKind | Unsupported:
    """Return the collective of a table: by the test's name, else by reduction, root and busbw / algbw."""
    if table.test in TESTS:
        return TESTS[table.test]
    if table.test in OTHER_TESTS:
        return Unsupported(f"{table.test} has no bound here")
    row = max(table.rows, key=lambda row: row.algbw)
    ratio = row.busbw / row.algbw if row.algbw else 0.0
    rooted = table.root is not None and table.root >= 0
    if table.reduces and not rooted:
        return CollectiveKind.ALLREDUCE if ratio > 0.99 else CollectiveKind.REDUCE_SCATTER
    if table.reduces:
        return CollectiveKind.REDUCE
    if rooted and ratio > 0.99:
        return CollectiveKind.BROADCAST
    return Unsupported("the log does not say which collective it is; give --collective")


def ranks_of(table: ResultTable, kind: CollectiveKind) -> int:
    """Derive the number of ranks from busbw / algbw if both have enough digits; else 0."""
    row = max(table.rows, key=lambda row: row.algbw)
    if row.algbw < 1:
        return 0
    ratio = row.busbw / row.algbw
    missing = 2 - ratio if kind is CollectiveKind.ALLREDUCE else 1 - ratio
    whole = 2 if kind is CollectiveKind.ALLREDUCE else 1
    if kind.is_rooted or missing <= 0:
        return 0
    # both figures are rounded to 0.005: the count is known only if no neighbour fits as well
    slack = (0.005 * (1 + ratio)) / row.algbw
    low, high = whole / (missing + slack), whole / max(missing - slack, 1e-9)
    return round(whole / missing) if round(low) == round(high) else 0


_ONE_CARD = re.compile(r"(?<!^mlx)[0-9]$")
"""A card's name ends in its number; `mlx5` alone is that of a driver, and of all its cards."""


def used_nics(log: Log) -> int:
    """Return the number of NICs that NCCL uses on a host: listed ones, else configured ones, else 0."""
    listed = [len(one.devices) for one in log.networks if one.kind != "Socket"]
    if listed:
        return max(listed)
    setting = log.setting("NCCL_IB_HCA")
    if setting is None or setting.value.startswith("^"):
        return 0
    names = [name for name in setting.value.lstrip("=").split(",") if name]
    # a name without a number of its own is a prefix, which may stand for any number of cards
    return len(names) if names and all(_ONE_CARD.search(name.partition(":")[0]) for name in names) else 0


_FAST_MODELS = ("SXM", "HBM3", "H200", "H20", "B200", "B300", "GB200", "GB300", "H800", "NVL")


def shows_fast_links(log: Log) -> bool:
    """Whether the log shows NVLinks: in a system tree, or by the model of the GPUs."""
    if any("NVL[" in text or "XGMI[" in text for tree in log.trees for _, text in tree.lines):
        return True
    models = {one.model for one in log.ranks.values()}
    return any(word in model for model in models for word in _FAST_MODELS)


def nvls_line(log: Log) -> LogLine | None:
    """Return the line that shows NVLink SHARP in use."""
    found = next((one.line for one in log.channels if one.nvls > 0), None)
    return found or log.remarks.get("nvls") or log.remarks.get("collnet")
