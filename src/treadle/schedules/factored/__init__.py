"""Factored forests: trees of subproblems, which are solved once per equivalence class and joined."""

from treadle.schedules.factored.even_allocation import EvenAllocation as EvenAllocation
from treadle.schedules.factored.factored_forest import FactoredForest as FactoredForest
from treadle.schedules.factored.factored_forest import FactoredSchedule as FactoredSchedule
from treadle.schedules.factored.factored_forest import expand as expand
from treadle.schedules.factored.layers import Crossings as Crossings
from treadle.schedules.factored.layers import Layer as Layer
from treadle.schedules.factored.layers import Subproblem as Subproblem
from treadle.schedules.factored.layers import no_crossings as no_crossings
from treadle.schedules.factored.plane_pairs import MOST_SHARES as MOST_SHARES
from treadle.schedules.factored.plane_trees import PlaneTrees as PlaneTrees
from treadle.schedules.factored.relay_planes import RelayPlanes as RelayPlanes
from treadle.schedules.factored.relay_trees import RelayTrees as RelayTrees
from treadle.schedules.factored.subproblem_trees import CirculantTrees as CirculantTrees
from treadle.schedules.factored.subproblem_trees import FormulaTrees as FormulaTrees
from treadle.schedules.factored.subproblem_trees import SubproblemRows as SubproblemRows
from treadle.schedules.factored.subproblem_trees import SubproblemTrees as SubproblemTrees
from treadle.schedules.factored.subproblem_trees import TableTrees as TableTrees
