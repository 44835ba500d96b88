"""Factored forests: what a stranger to their pieces needs."""

from treadle.schedules.factored.even_shares import EvenShares
from treadle.schedules.factored.factored_forest import FactoredForest, FactoredSchedule, expand
from treadle.schedules.factored.formula_trees import FormulaTrees
from treadle.schedules.factored.layers import Crossings, Layer, Piece, no_crossings
from treadle.schedules.factored.piece_trees import CirculantTrees, PieceRows, PieceTrees, TableTrees
from treadle.schedules.factored.plane_pairs import MOST_SHARES
from treadle.schedules.factored.plane_trees import PlaneTrees
from treadle.schedules.factored.relay_planes import RelayPlanes
from treadle.schedules.factored.relay_trees import RelayTrees

__all__ = [
    "MOST_SHARES",
    "CirculantTrees",
    "Crossings",
    "EvenShares",
    "FactoredForest",
    "FactoredSchedule",
    "FormulaTrees",
    "Layer",
    "Piece",
    "PieceRows",
    "PieceTrees",
    "PlaneTrees",
    "RelayPlanes",
    "RelayTrees",
    "TableTrees",
    "expand",
    "no_crossings",
]
