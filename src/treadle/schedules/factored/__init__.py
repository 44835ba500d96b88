"""Factored forests: trees of subproblems, which are solved once per equivalence class and joined."""

from treadle.schedules.factored.even_shares import EvenShares as EvenShares
from treadle.schedules.factored.factored_forest import FactoredForest as FactoredForest
from treadle.schedules.factored.factored_forest import FactoredSchedule as FactoredSchedule
from treadle.schedules.factored.factored_forest import expand as expand
from treadle.schedules.factored.layers import Crossings as Crossings
from treadle.schedules.factored.layers import Layer as Layer
from treadle.schedules.factored.layers import Piece as Piece
from treadle.schedules.factored.layers import no_crossings as no_crossings
from treadle.schedules.factored.piece_trees import CirculantTrees as CirculantTrees
from treadle.schedules.factored.piece_trees import FormulaTrees as FormulaTrees
from treadle.schedules.factored.piece_trees import PieceRows as PieceRows
from treadle.schedules.factored.piece_trees import PieceTrees as PieceTrees
from treadle.schedules.factored.piece_trees import TableTrees as TableTrees
from treadle.schedules.factored.plane_pairs import MOST_SHARES as MOST_SHARES
from treadle.schedules.factored.plane_trees import PlaneTrees as PlaneTrees
from treadle.schedules.factored.relay_planes import RelayPlanes as RelayPlanes
from treadle.schedules.factored.relay_trees import RelayTrees as RelayTrees
