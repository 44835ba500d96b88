"""Factor graphs by hand: factors of one scope as one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from treadle.arrays import frozen
from treadle.parallelism.search.factor_graph import Factor


def merged(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """The same with one factor per scope: amounts add up, what one forbids is forbidden."""
    found: dict[tuple[int, ...], Factor] = {}
    for part in factors:
        before = found.get(part.scope)
        if before is None:
            found[part.scope] = part
            continue
        tables = dict(before.tables)
        for q, table in part.tables.items():
            tables[q] = frozen(tables[q] + table, np.float64) if q in tables else table
        masks = [mask for mask in (before.forbidden, part.forbidden) if mask is not None]
        forbidden = frozen(np.logical_or.reduce(masks), np.bool_) if masks else None
        found[part.scope] = Factor(part.scope, tables, forbidden)
    return tuple(found[scope] for scope in sorted(found, key=lambda scope: (len(scope), scope)))
