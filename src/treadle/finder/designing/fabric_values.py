"""Facts of a direct-connect fabric, and limits on the work to compute them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treadle.brief import brief
from treadle.notebook import displayed, own_fields
from treadle.synthesis.steps.bfb import BfbValue
from treadle.synthesis.steps.bfb.in_links import MAX_NODES
from treadle.topologies import (
    IntersectionArray,
    is_moore_optimal,
)
from treadle.topologies.isomorphism import DEFAULT_WORK


@displayed(own_fields)
@dataclass(frozen=True)
class FactLimits:
    """Limits on the work of slow facts; the defaults keep any fabric to a few seconds.

    Parameters
    ----------
    distance_nodes : int
        Nodes up to which distances are searched from all of them. Where the fabric is known to be
        vertex-transitive one node is enough.
    distance_work : int
        Most links times hops, for every 64 nodes from which distances are searched; 10**8 take a second.
    breadth_first_pairs : int
        Most pairs of nodes times links per node for breadth-first values. Cayley digraphs that are
        called so have no limit.
    breadth_first_degree : int
        Most links into a node for breadth-first values, whose time grows with its square.
    regularity_pairs : int
        As `breadth_first_pairs` for the intersection array.
    symmetry_work : int
        `work_limit` of each search for symmetries.
    symmetry_links : int
        Links up to which symmetries are searched for.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> quick = planning.FactLimits(symmetry_links=10)
    >>> planning.describe_fabric(treadle.parse("torus:4,4"), limits=quick).omissions
    ('vertex-transitive: 64 links, at most 10',)
    """

    distance_nodes: int = 6000
    distance_work: int = 2 * 10**8
    breadth_first_pairs: int = 2 * 10**8
    breadth_first_degree: int = 4096
    regularity_pairs: int = 3 * 10**7
    symmetry_work: int = 3 * 10**7
    symmetry_links: int = 50_000

    @classmethod
    def lifted(cls) -> FactLimits:
        """Return limits of minutes, and of gigabytes for tens of thousands of nodes."""
        return cls(
            distance_nodes=MAX_NODES,
            distance_work=2**62,
            breadth_first_pairs=2**62,
            breadth_first_degree=2**62,
            regularity_pairs=2**62,
            symmetry_work=10 * DEFAULT_WORK,
            symmetry_links=2**62,
        )


@brief("diameter", "mean", "is_alike", "pair_rate")
@dataclass(frozen=True)
class DistanceFacts:
    """Distances in hops between compute nodes; paths may pass through switches and other nodes.

    Parameters
    ----------
    pairs : tuple of int
        Entry t counts the ordered pairs of compute nodes at distance t; the first counts each node once.
    is_alike : bool
        Whether every node sees as many others at each distance as any other node does.
    pair_rate : Fraction, optional
        Upper bound of the all-to-all rate, bytes/s per ordered pair: bandwidth over distances.

    Examples
    --------
    >>> import treadle
    >>> facts = treadle.planning.describe_fabric(treadle.parse("torus:4,4"))
    >>> facts.distances
    <DistanceFacts diameter 4, mean 32/15, alike, pair rate 1/8>
    >>> facts.distances.pairs
    (16, 64, 96, 64, 16)
    """

    pairs: tuple[int, ...]
    is_alike: bool
    pair_rate: Fraction | None

    @property
    def diameter(self) -> int:
        """Largest distance."""
        return len(self.pairs) - 1

    @property
    def mean(self) -> Fraction | None:
        """Mean distance between two different nodes; None for a single node."""
        others = sum(self.pairs[1:])
        total = sum(distance * count for distance, count in enumerate(self.pairs))
        return Fraction(total, others) if others else None

    @property
    def per_node(self) -> tuple[Fraction, ...]:
        """Nodes at each distance, averaged over all nodes."""
        return tuple(Fraction(count, self.pairs[0]) for count in self.pairs)


@brief("steps", "steps_bidirectional", "mean_distance", "t_b", "pair_rate")
@dataclass(frozen=True)
class SizeBounds:
    """Lower bounds for fabrics with these numbers of nodes and links per node (dissertation, A.3).

    Parameters
    ----------
    steps : int
        Least diameter, and least number of steps: T_L*.
    steps_bidirectional : int, optional
        The same with bidirectional links: T_L**. None if no such fabric exists.
    mean_distance : Fraction
        Least mean distance.
    t_b : Fraction
        Least T_B of allgather and reduce-scatter, M/B.
    pair_rate : Fraction, optional
        Most that an all-to-all can have, bytes/s per ordered pair; None where links differ.

    Examples
    --------
    >>> import treadle
    >>> bounds = treadle.planning.describe_fabric(treadle.parse("torus:4,4")).bounds
    >>> bounds.steps, bounds.steps_bidirectional, bounds.t_b
    (2, 2, Fraction(15, 16))
    """

    steps: int
    steps_bidirectional: int | None
    mean_distance: Fraction
    t_b: Fraction
    pair_rate: Fraction | None


@brief("n_ranks", "degrees", "bounds", "distances")
@dataclass(frozen=True)
class FabricFacts:
    """Facts from `describe_fabric`. None: it does not apply, or `omissions` says why it is unknown.

    Parameters
    ----------
    n_ranks : int
        Compute nodes N.
    is_direct : bool
        Whether there are compute nodes only. If not, only `distances` applies.
    is_bidirectional : bool, optional
        Whether links are bidirectional, with equal bandwidth and latency.
    degrees : tuple of (int, int), optional
        Fewest and most links into or out of a node, self-loops and parallel links included.
    bounds : SizeBounds, optional
        For regular fabrics of two nodes or more.
    distances : DistanceFacts, optional
        For connected fabrics.
    allgather, reduce_scatter : BfbValue, optional
        Cost of the best breadth-first-broadcast schedules, for connected fabrics.
    is_vertex_transitive, is_reverse_symmetric : bool, optional
        Whether symmetries take every node to every other; whether turning all links round gives the same
        fabric.
    is_distance_regular : bool, optional
    intersection_array : IntersectionArray, optional
        If it is distance-regular.
    omissions : tuple of str
        What was left out for the time it would take, and why.

    Examples
    --------
    >>> import treadle
    >>> facts = treadle.planning.describe_fabric(treadle.parse("torus:4,4"))
    >>> facts.degree, facts.diameter, facts.is_vertex_transitive
    (4, 4, True)
    >>> facts.allgather.t_b, facts.bounds.t_b
    (Fraction(15, 16), Fraction(15, 16))
    """

    n_ranks: int
    is_direct: bool
    is_bidirectional: bool | None = None
    degrees: tuple[int, int] | None = None
    bounds: SizeBounds | None = None
    distances: DistanceFacts | None = None
    allgather: BfbValue | None = None
    reduce_scatter: BfbValue | None = None
    is_vertex_transitive: bool | None = None
    is_reverse_symmetric: bool | None = None
    is_distance_regular: bool | None = None
    intersection_array: IntersectionArray | None = None
    omissions: tuple[str, ...] = ()

    @property
    def degree(self) -> int | None:
        """Links into and out of every node; None if nodes differ."""
        return self.degrees[0] if self.degrees and self.degrees[0] == self.degrees[1] else None

    @property
    def diameter(self) -> int | None:
        """Largest distance, from the distances or else from the breadth-first values."""
        if self.distances is not None:
            return self.distances.diameter
        return None if self.allgather is None else self.allgather.diameter

    @property
    def is_moore_optimal(self) -> bool | None:
        """Whether the diameter is the least for the size and degree (definition 10)."""
        return self._meets_moore(bidirectional=False)

    @property
    def is_moore_optimal_bidirectional(self) -> bool | None:
        """The same among bidirectional fabrics; None unless this is one."""
        return self._meets_moore(bidirectional=True) if self.is_bidirectional else None

    def _meets_moore(self, *, bidirectional: bool) -> bool | None:
        if self.diameter is None or self.bounds is None or not self.degree:
            return None
        return is_moore_optimal(self.n_ranks, self.degree, self.diameter, bidirectional=bidirectional)
