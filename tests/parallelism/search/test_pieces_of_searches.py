"""What searches are made of, by hand: quantities, sums of maxima, columns, prices, counts, splits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.search.branching import NAMED_EFFORT, Incumbent, SearchEffort, minimise
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray, Quantities, factor
from treadle.parallelism.search.layer_columns import ColumnPool, Layering, joined, priced
from treadle.parallelism.search.minimax import Minimax, Overlap, peak_memory, step_time
from treadle.parallelism.search.mixed_layers import Counts, MixedLayers, best_counts, best_prices, mix_layers
from treadle.parallelism.search.multipliers import Columns, even_weights
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan, least_persistent
from treadle.parallelism.search.reweighted_trees import no_messages
from treadle.parallelism.search.slices import Slice, boxes_of, consistent, full_domains
from treadle.parallelism.search.splitting import PartRecord, best_split

NAMES = Quantities(n_sections=2, n_moments=3)
EXACT = SearchEffort(gap=0.0)


def two_sections() -> FactorGraph:
    """Nodes of 2, 3 and 2 states; section 0 runs five times, section 1 once."""
    return FactorGraph(
        (2, 3, 2),
        NAMES,
        (
            factor([0], {NAMES.serial(0): [3, 1], NAMES.persistent: [10, 40]}),
            factor([0, 1], {NAMES.overlapped(0): [[1, 2, 4], [7, 0, 5]]}),
            factor([1], {NAMES.serial(1): [2, 6, 9], NAMES.transient(1): [8, 5, 0]}),
            factor([2, 1], {NAMES.overlapped(1): np.array([[1, 3, np.inf], [4, 8, 2]])}),
        ),
        (5, 1),
    )


def test_quantities_are_numbered_through() -> None:
    assert [NAMES.serial(1), NAMES.overlapped(0), NAMES.overlapped(1), NAMES.persistent] == [
        1,
        2,
        3,
        4,
    ]
    assert [NAMES.transient(0), NAMES.transient(2), NAMES.count] == [5, 7, 8]


def test_the_seconds_of_a_step_by_overlap() -> None:
    """Plan (0, 1, 1): section 0 computes 3 and sends 2, five times; section 1 computes 6 and sends 8."""
    graph = two_sections()
    amounts = graph.amounts((0, 1, 1))
    assert amounts.tolist() == [3, 6, 2, 8, 10, 0, 5, 0]
    found = {one: step_time(graph, overlap=one).value(amounts) for one in Overlap}
    assert found == {Overlap.LAYER: 5 * 3 + 8, Overlap.MODEL: 5 * 3 + 6, Overlap.NONE: 5 * 5 + 14}
    other = graph.amounts((1, 0, 0))
    assert other.tolist() == [1, 2, 7, 1, 40, 0, 8, 0]
    found = {one: step_time(graph, overlap=one).value(other) for one in Overlap}
    assert found == {Overlap.LAYER: 35 + 2, Overlap.MODEL: 35 + 1, Overlap.NONE: 5 * 8 + 3}
    assert step_time(graph).value(other) == 37
    assert step_time(graph).values(np.array([amounts, other])).tolist() == [23, 37]
    assert (graph.is_allowed((0, 2, 0)), graph.is_allowed((0, 2, 1))) == (False, True)


def test_limits_of_memory_hold_at_every_moment() -> None:
    """Bytes (0, 1, 1): 10 at all times and 5 more at the second moment; (1, 0, 0): 40 and 8."""
    graph = two_sections()
    both = np.array([graph.amounts((0, 1, 1)), graph.amounts((1, 0, 0))])
    assert peak_memory(graph).values(both).tolist() == [15, 48]
    for limit, fits in ((14.9, False), (15.0, True), (15.1, True), (np.inf, True)):
        assert step_time(graph, memory_bytes=limit).fits(both[0]) == fits
    assert step_time(graph, memory_bytes=20).excess(both).tolist() == [0, 28]
    assert step_time(graph).excess(both).tolist() == [0, 0]
    unlimited = Minimax(np.ones((1, 8)), ((1.0, (0,)),), (), 3.0)
    assert unlimited.excess(both).tolist() == [0, 0]
    bare = FactorGraph((2,), Quantities(1, 0), (factor([0], {2: [7, 9]}),), (1,))
    assert peak_memory(bare).value(bare.amounts((1,))) == 9
    assert peak_memory(bare).forms.tolist() == [[0, 0, 1]]
    forms = step_time(graph, memory_bytes=20).core_forms
    assert forms.group.tolist() == [0, 0, 1, 1, -1, -1, -1]
    assert forms.weight.tolist() == [5, 1]
    assert forms.limited.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert (forms.start.tolist(), forms.limit) == ([0, 1, 2, 3, 4, 6, 8, 10], 20)
    assert forms.quantity.tolist() == [0, 2, 1, 3, 4, 5, 4, 6, 4, 7]
    assert even_weights(step_time(graph)).tolist() == [2.5, 2.5, 0.5, 0.5, 0, 0, 0]


def test_columns_remember_the_best_that_fits() -> None:
    graph = two_sections()
    columns = Columns(graph, step_time(graph, memory_bytes=20))
    assert columns.within(full_domains(graph)) == []
    assert columns.add((1, 0, 0))
    assert (columns.best, columns.value) == (None, np.inf)
    assert columns.add((0, 1, 1))
    assert columns.add((0, 0, 1))  # 15 + 4
    assert not columns.add((0, 1, 1))
    assert columns.add((0, 2, 1))  # 20 + 9
    assert (columns.best, columns.value) == ((0, 0, 1), 19)
    some = (np.array([0]), np.array([1, 2]), np.array([0, 1]))
    assert columns.within(some) == [(0, 1, 1), (0, 2, 1)]


def test_states_and_places_of_a_part() -> None:
    graph = two_sections()
    part = Slice(graph, (np.array([1]), np.array([0, 2]), np.array([1])))
    assert part.plan([0, 1, 0]) == (1, 2, 1)
    assert part.labels((1, 2, 1)) == [0, 1, 0]
    assert part.labels((1, 1, 1)) is None
    assert part.labels((0, 2, 1)) is None
    assert not part.is_single
    assert Slice(graph, (np.array([1]), np.array([2]), np.array([1]))).is_single
    # at least the largest of each factor: 3, 7, 9 and 8
    weights = np.array([1, 1, 1, 1, 0, 0, 0, 0.0])
    assert part.energies(weights).largest == 3 + 7 + 9 + 8
    assert part.energies(weights).unary.tolist() == [1, 2, 9, 0]
    # the third state of node 1 loses its partner where node 2 has its first alone
    left = consistent(graph, (np.arange(2), np.arange(3), np.array([0])))
    assert left is not None
    assert [states.tolist() for states in left] == [[0, 1], [0, 1], [0]]
    assert consistent(graph, (np.arange(2), np.array([2]), np.array([0]))) is None


def test_what_persists_at_least() -> None:
    graph = two_sections()
    assert least_persistent(graph, full_domains(graph)) == pytest.approx(10)
    assert least_persistent(graph, (np.array([1]), np.arange(3), np.arange(2))) == pytest.approx(40)
    assert least_persistent(graph, (np.array([1]), np.array([2]), np.array([0]))) == np.inf


def test_efforts_and_gaps() -> None:
    effort = SearchEffort()
    assert (effort.gap, effort.enough, effort.n_parts) == (0.01, -np.inf, 10_000)
    assert (effort.first_passes, effort.other_passes) == (60, 12)
    assert SearchEffort(n_parts=1, first_passes=6) == NAMED_EFFORT
    assert Incumbent((0,), 8.0, 6.0, 1, 1).gap == 0.25
    assert Incumbent((0,), 8.0, 9.0, 1, 1).gap == 0
    assert Incumbent((0,), 0.0, 0.0, 1, 1).gap == 0
    assert Incumbent(None, np.inf, 6.0, 1, 1).gap == np.inf
    assert MixedLayers((), (), 8.0, 0.0, 6.0).gap == 0.25
    assert MixedLayers((), (), 8.0, 0.0, 9.0).gap == 0
    assert MixedLayers((), (), 0.0, 0.0, 0.0).gap == 0


def test_the_search_tells_what_it_found() -> None:
    """(1, 1, 0) takes 5 + 6 but 45 bytes, (0, 0, 0) 15 + 2 and 18; the least bytes are 10."""
    graph = two_sections()
    found = fastest_plan(graph, effort=EXACT)
    assert isinstance(found, Incumbent)
    assert (found.plan, found.value) == ((1, 1, 0), 11)
    assert found.bound == pytest.approx(11)
    assert found.record is not None
    tight = fastest_plan(graph, memory_bytes=20, effort=EXACT)
    assert isinstance(tight, Incumbent)
    assert (tight.plan, tight.value) == ((0, 0, 0), 17)
    short = fastest_plan(graph, memory_bytes=9, effort=EXACT)
    assert isinstance(short, MemoryShortage)
    assert (short.memory_bytes, short.least_bytes, short.plan) == (9, 10, (0, 2, 1))
    assert 9 < short.bound_bytes <= 10
    good = minimise(graph, step_time(graph), warm_starts=[(0, 0, 0)], effort=SearchEffort(enough=30.0))
    assert good.value <= 17
    assert good.bound <= 11
    forbidden = fastest_plan(graph, within=(np.arange(2), np.array([2]), np.array([0])))
    assert forbidden == MemoryShortage(np.inf, np.inf, np.inf, None)


def lettered(letters: list[list[int]]) -> FactorGraph:
    names = Quantities(1, 0)
    column = np.array(letters)
    return FactorGraph(
        (len(letters), 1),
        names,
        (factor([0], {0: np.arange(len(letters))}),),
        (1,),
        (column, np.zeros((1, column.shape[1]), dtype=np.int64)),
    )


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ([[0, 0], [0, 1], [1, 0], [1, 1], [2, 5]], [[0, 1], [2, 3], [4]]),
        ([[0, 7], [0, 3], [0, 7], [0, 3], [0, 3]], [[1, 3, 4], [0, 2]]),
        ([[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], [[0, 1, 2], [3, 4]]),
    ],
)
def test_states_part_by_the_first_letter_that_tells_them_apart(
    letters: list[list[int]], expected: list[list[int]]
) -> None:
    """No plans are mixed here; without letters that differ, halves."""
    graph = lettered(letters)
    aim = step_time(graph)
    part = Slice(graph, full_domains(graph))
    node, groups = best_split(part, aim, even_weights(aim), no_messages(graph), ())
    assert node == 0
    assert [states.tolist() for states in groups] == expected
    found = boxes_of(part.domains, node, groups)
    assert [domains[0].tolist() for domains in found] == expected
    assert all(domains[1].tolist() == [0] for domains in found)


def test_mixed_plans_part_by_what_they_differ_in() -> None:
    """Plans 0 and 4 are mixed: apart by their first letter, or their last; others go with their letter."""
    graph = lettered([[0, 0, 1], [0, 1, 2], [1, 0, 1], [1, 1, 1], [1, 1, 2]])
    aim = step_time(graph)
    part = Slice(graph, full_domains(graph))
    support = ((0.5, (0, 0)), (0.5, (4, 0)))
    node, groups = best_split(part, aim, even_weights(aim), no_messages(graph), support)
    # by the first letter the dearer piece begins at 2, by the last at 1
    assert (node, [states.tolist() for states in groups]) == (0, [[0, 1], [2, 3, 4]])
    plain = FactorGraph(graph.sizes, graph.quantities, graph.factors, graph.repeats)
    uncut = Slice(plain, full_domains(plain))
    node, groups = best_split(uncut, aim, even_weights(aim), no_messages(plain), support)
    assert (node, [states.tolist() for states in groups]) == (0, [[0], [4], [1, 2, 3]])


def test_a_record_notes_the_node_that_was_split() -> None:
    record = PartRecord(np.array([1.0, 2.0]))
    record.split(1, [np.array([0]), np.array([1, 2])])
    assert record.node == 1
    assert [states.tolist() for states in record.groups] == [[0], [1, 2]]
    assert [part.weights.tolist() for part in record.parts] == [[1, 2], [1, 2]]
    assert [part.node for part in record.parts] == [-1, -1]


def layered(*, repeats: int = 3) -> Layering:
    """Boundary node 0; block node 1 of three plans; an end, node 2, of two."""
    names = Quantities(2, 2)
    parts = (
        factor(
            [1],
            {
                names.serial(0): [6, 4, 3],
                names.overlapped(0): [1, 5, 2],
                names.persistent: [3, 9, 30],
                names.transient(0): [2, 0, 1],
            },
        ),
        factor([0, 1], {names.overlapped(0): [[0, 0, 0], [2, 0, 0]]}),
        factor([2], {names.serial(1): [10, 7], names.persistent: [1, 2], names.transient(1): [4, 6]}),
        factor([0, 2], {names.overlapped(1): [[0, 0], [20, 1]]}),
    )
    graph = FactorGraph((2, 3, 2), names, parts, (repeats, 1), first=(0,))
    switches = np.array([[0, 0.5], [0.25, 0]])
    return Layering(graph, 0, (0,), (switches,), frozenset([1]))


def test_sides_of_layers() -> None:
    layering = layered()
    assert layering.n_layers == 3
    assert (layering.layers.nodes, layering.ends.nodes) == ((0, 1), (0, 2))
    assert layering.layers.graph.sizes == (2, 3)
    assert layering.layers.graph.first == (0,)
    assert layering.layers.cut((1, 2, 0)) == (1, 2)
    assert layering.ends.cut((1, 2, 0)) == (1, 0)
    assert layering.layers.boundary_of((1, 2)) == (1,)
    assert joined(layering, (1, 2), (0, 1)) == (1, 2, 1)
    assert (layering.switch_seconds((0,), (1,)), layering.switch_seconds((1,), (0,))) == (0.5, 0.25)
    assert layering.switch_seconds((1,), (1,)) == 0


@pytest.mark.parametrize(
    ("scope", "quantity", "words"),
    [
        ((1, 2), NAMES.persistent, "layers: nodes (1, 2) tie the block to the ends"),
        ((0,), NAMES.serial(1), "layers: nodes (0,) cost time in another section than their own"),
        ((1,), NAMES.overlapped(1), "layers: nodes (1,) cost time in another section than their own"),
        ((2,), NAMES.serial(0), "layers: nodes (2,) cost time in another section than their own"),
    ],
)
def test_block_and_ends_meet_at_boundaries_alone(scope: tuple[int, ...], quantity: int, words: str) -> None:
    """Also where a table costs nothing in most states; bytes may be anybody's."""
    sizes = (2, 3, 2)
    switch = (np.zeros((2, 2)),)
    cost = np.zeros(tuple(sizes[node] for node in scope))
    cost.flat[-1] = 5

    def layering(part: int) -> Layering:
        graph = FactorGraph(sizes, NAMES, (factor(scope, {part: cost}),), (3, 1))
        return Layering(graph, 0, (0,), switch, frozenset([1]))

    with pytest.raises(ScheduleError) as caught:
        layering(quantity)
    assert str(caught.value) == words
    if len(scope) == 1:
        inside = scope != (2,)
        own = layering(NAMES.serial(0 if inside else 1))
        assert (len(own.layers.graph.factors), len(own.ends.graph.factors)) == (inside, not inside)
        assert layering(NAMES.transient(0)).n_layers == 3


def pools() -> tuple[ColumnPool, ColumnPool]:
    layering = layered()
    columns = ColumnPool.of(layering.layers, product(range(2), range(3)), Overlap.LAYER)
    endings = ColumnPool.of(layering.ends, product(range(2), range(2)), Overlap.LAYER)
    return columns, endings


def test_what_columns_and_endings_cost() -> None:
    columns, endings = pools()
    # three layers: the larger of compute and communication each
    assert columns.seconds.tolist() == [18, 15, 9, 18, 15, 9]
    assert columns.persistent.tolist() == [3, 9, 30] * 2
    assert columns.held.tolist() == [[5, 3], [9, 9], [31, 30]] * 2
    assert columns.transient.tolist() == [[2, 0], [0, 0], [1, 0]] * 2
    assert endings.seconds.tolist() == [10, 7, 20, 7]
    assert endings.held.tolist() == [[1, 5], [2, 8]] * 2
    some = columns.chosen([4, 0])
    assert (some.plans, some.seconds.tolist()) == (((1, 1), (0, 0)), [15, 18])
    assert some.held.tolist() == [[9, 9], [5, 3]]
    more = some.with_more([(0, 0), (1, 2), (1, 2)], Overlap.LAYER)
    assert more.plans == ((1, 1), (0, 0), (1, 2))
    assert (more.seconds.tolist(), more.persistent.tolist()) == ([15, 18, 9], [9, 3, 30])
    assert more.held.tolist() == [[9, 9], [5, 3], [31, 30]]


def test_columns_that_others_beat_are_left_out() -> None:
    """Of one boundary, in everything; the first by merit stays of equal ones."""
    columns, _ = pools()
    worse = ColumnPool(
        columns.side,
        ((0, 0), (0, 1), (1, 1), (0, 2)),
        np.array([5.0, 6, 6, 4]),
        np.array([[7.0, 7], [8, 8], [8, 8], [9, 7]]),
        np.array([7.0, 7, 7, 7]),
    )
    merit = np.array([1.0, 2, 3, 4])
    assert worse.undominated(merit, 9).plans == ((0, 0), (1, 1), (0, 2))
    assert worse.undominated(merit, 2).plans == ((0, 0), (1, 1))
    assert worse.undominated(-merit, 9).plans == ((0, 2), (1, 1), (0, 1), (0, 0))


def test_ten_times_as_many_columns_are_looked_at_as_are_kept() -> None:
    """Each beats those that come after it; the first of another boundary is the 21st by merit."""
    side = layered().layers
    plans = (*((0, 0),) * 20, (1, 0))
    seconds = np.arange(21.0)
    none = np.zeros((21, 1))
    pool = ColumnPool(side, plans, seconds, none, none[:, 0])
    assert pool.undominated(seconds, 2).plans == ((0, 0),)
    nearer = np.where(seconds == 20, 18.5, seconds)
    assert pool.undominated(nearer, 2).plans == ((0, 0), (1, 0))
    fewer = np.where(seconds == 20, 8.5, seconds)
    assert pool.undominated(fewer, 1).plans == ((0, 0),)


def test_prices_of_bytes_are_a_form_of_their_own() -> None:
    columns, _ = pools()
    aim = priced(columns.side, Overlap.LAYER, np.array([0.5, 0.25]))
    values = [aim.value(columns.side.graph.amounts(plan)) for plan in columns.plans[:3]]
    assert values == [18 + 2.5 + 0.75, 15 + 4.5 + 2.25, 9 + 15.5 + 7.5]
    assert not aim.limited


def test_the_best_prices_by_hand(capfd: pytest.CaptureFixture[str]) -> None:
    """10 bytes at most: half of each column; a byte more saves a twentieth of the 9 seconds between them."""
    side = layered().layers
    held = np.array([[0.0], [20.0]])
    two = ColumnPool(side, ((0, 0), (0, 2)), np.array([18.0, 9.0]), held, held[:, 0])
    none = np.array([[0.0]])
    end = ColumnPool(layered().ends, ((0, 0),), np.array([1.0]), none, none[:, 0])
    assert best_prices(two, end, 10.0).tolist() == pytest.approx([9 / 20])
    assert best_prices(two, end, 20.5).tolist() == pytest.approx([0])
    assert best_prices(two, end, np.inf).tolist() == [0]
    assert capfd.readouterr() == ("", "")


def cheapest_by_force(columns: ColumnPool, endings: ColumnPool, n_layers: int, limit: float) -> float:
    best = np.inf
    n = len(columns.plans)
    for counts in product(range(n_layers + 1), repeat=n):
        if sum(counts) != n_layers:
            continue
        used = [i for i in range(n) if counts[i]]
        for end in range(len(endings.plans)):
            stays = sum(counts[i] * columns.persistent[i] / n_layers for i in used) + endings.persistent[end]
            passing = max((columns.transient[i] + endings.transient[end]).max() for i in used)
            if stays + passing <= limit:
                seconds = sum(counts[i] * columns.seconds[i] / n_layers for i in used) + endings.seconds[end]
                best = min(best, float(seconds))
    return best


def seconds_of(found: Counts, columns: ColumnPool, endings: ColumnPool, n_layers: int) -> float:
    return float(np.array(found.counts) @ columns.seconds / n_layers + endings.seconds[found.ending])


@pytest.mark.parametrize("limit", [5.0, 9.0, 10.0, 12.0, 16.5, 20.0, 25.0, 30.0, 38.0, np.inf])
def test_the_best_counts_of_all(limit: float) -> None:
    columns, endings = pools()
    columns, endings = columns.chosen([0, 1, 2]), endings.chosen([0, 1])
    best = cheapest_by_force(columns, endings, 3, limit)
    found = best_counts(columns, endings, 3, limit, below=np.inf)
    if np.isinf(best):
        assert found is None
        return
    assert found is not None
    assert sum(found.counts) == 3
    assert seconds_of(found, columns, endings, 3) == pytest.approx(best)
    assert best_counts(columns, endings, 3, limit, below=best) is None
    nearly = best_counts(columns, endings, 3, limit, below=best * 1.01)
    assert nearly is not None
    assert seconds_of(nearly, columns, endings, 3) == pytest.approx(best)


def test_a_mixture_of_boundaries_pays_for_its_switches() -> None:
    """State 1 at the ends alone costs 7 seconds there and 0.5 + 0.25 on the way round."""
    layering = layered()
    found = mix_layers(layering, [(0, 0, 0), (1, 1, 1)], effort=EXACT)
    assert found is not None
    assert found.value == found.bound == 9 + 7
    assert found.switch_s == 0
    with pytest.raises(ScheduleError) as caught:
        mix_layers(layering, [(0, 0, 0)], overlap=Overlap.MODEL)
    assert str(caught.value) == (
        "mixed layers: overlap is counted by layer, or mixtures hide what no layer can"
    )


def table(rows: list[list[float]]) -> FloatArray:
    return np.array(rows)


@pytest.mark.parametrize(
    "switches", [table([[0, 1, 2], [1, 0, 1], [1, 1, 0]]), table([[0, -1], [1, 0]]), table([[0, 1], [1, 2]])]
)
def test_switches_are_seconds_between_the_states_of_a_boundary(switches: FloatArray) -> None:
    graph = layered().graph
    with pytest.raises(ScheduleError) as caught:
        Layering(graph, 0, (0,), (switches,), frozenset([1]))
    assert str(caught.value) == "layers: boundary node 0: expected 2 x 2 seconds, 0 to itself"
    with pytest.raises(ScheduleError) as caught:
        Layering(graph, 0, (0,), (table([[0, 1], [1, 0]]),), frozenset([0, 1]))
    assert str(caught.value) == "layers: a boundary node is not in the block"
