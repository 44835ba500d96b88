"""Factored forests: what a stranger to their pieces needs."""

from treadle.schedules.factored.even_shares import EvenShares
from treadle.schedules.factored.exchanges import ExchangeColumns
from treadle.schedules.factored.forests import FactoredForest, FactoredSchedule, expand
from treadle.schedules.factored.layers import Crossings, Layer, Piece, no_crossings
from treadle.schedules.factored.plane_pairs import MOST_SHARES
from treadle.schedules.factored.planes import PlaneExchange
from treadle.schedules.factored.relay_planes import RelayPlanes
from treadle.schedules.factored.relays import RelayExchange
from treadle.schedules.factored.trees import CirculantExchange, PieceTrees, TableTrees, TreeRows

__all__ = [
    "MOST_SHARES",
    "CirculantExchange",
    "Crossings",
    "EvenShares",
    "ExchangeColumns",
    "FactoredForest",
    "FactoredSchedule",
    "Layer",
    "Piece",
    "PieceTrees",
    "PlaneExchange",
    "RelayExchange",
    "RelayPlanes",
    "TableTrees",
    "TreeRows",
    "expand",
    "no_crossings",
]
