"""Time of a collective in a group of ranks, in one call that is quick enough for a compiler's inner loop."""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's: importing this module is to cost next to nothing
if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.api.group_prices import Price, PriceKind, Pricer
    from treadle.inputs.fabrics_and_plans import FabricLike
    from treadle.schedules.collective import CollectiveKind

_MOST_KNOWN = 4096
_KNOWN: dict[tuple[object, ...], Pricer] = {}
"""Keys: fabric, group, collective and kind."""


def price(
    topology: FabricLike,
    group: Sequence[int] | str,
    collective: CollectiveKind | str,
    size: int | str,
    *,
    kind: PriceKind | str | None = None,
) -> Price:
    """Return the time of a collective in a group of ranks, concurrent with groups like it on all other ranks.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
        Catalogue expressions and values are quickest: files are read at every call.
    group : sequence of int, or str
        Ranks; or text: ``0-7``, names and patterns (``box0.*``), or a mesh and axes, ``dp=2,tp=8:tp``.
    collective : CollectiveKind or str
    size : int or str
        As nccl-tests counts, bytes or ``64MB``: the larger buffer of a rank.
    kind : PriceKind or str, optional
        Default: the first there is of measured fit, library model, simulated plan, bound.

    Raises
    ------
    TreadleError
        If an argument is malformed, or no price of this kind exists.

    Notes
    -----
    The first price of a group takes milliseconds, of a simulated plan seconds. Ranks that do not form a group
    of a mesh are priced while the others idle.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.price("dgx_h100:2", "dp=2,tp=8:dp", "allgather", "64MB")
    >>> f"{found.time_s * 1e6:.0f} us, {found.kind}, optimum {float(found.optimum) / 1e9:.0f} GB/s"
    '873 us, library-model, optimum 100 GB/s'
    >>> treadle.price("dgx_h100:2", range(8), "allgather", "64MB", kind="bound").time_s
    0.000117440512
    """
    asked: tuple[object, ...] = (topology, group, collective, kind)
    try:
        if not isinstance(group, str):
            asked = (topology, tuple(group), collective, kind)
        known = _KNOWN.get(asked)
    except TypeError:  # a fabric that has no hash, or what the next lines report
        known = None
    if known is None:
        from treadle.api.group_prices import group_pricer, is_constant

        known = group_pricer(topology, group, collective, kind)
        if is_constant(topology):
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[asked] = known
    return known(size)
