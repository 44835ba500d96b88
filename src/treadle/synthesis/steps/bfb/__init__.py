"""Breadth-first-broadcast schedules (dissertation, section 3.6 and appendix A.5), exact and without an LP."""

from treadle.synthesis.steps.bfb.breadth_first import bfb_allgather as bfb_allgather
from treadle.synthesis.steps.bfb.breadth_first import bfb_broadcast as bfb_broadcast
from treadle.synthesis.steps.bfb.breadth_first import bfb_reduce_scatter as bfb_reduce_scatter
from treadle.synthesis.steps.bfb.breadth_first import bfb_schedule as bfb_schedule
from treadle.synthesis.steps.bfb.breadth_first import chunk_count as chunk_count
from treadle.synthesis.steps.bfb.heterogeneous import HeterogeneousValue as HeterogeneousValue
from treadle.synthesis.steps.bfb.heterogeneous import heterogeneous_allgather as heterogeneous_allgather
from treadle.synthesis.steps.bfb.heterogeneous import heterogeneous_value as heterogeneous_value
from treadle.synthesis.steps.bfb.heterogeneous import schedule_for_size as schedule_for_size
from treadle.synthesis.steps.bfb.value import BfbValue as BfbValue
from treadle.synthesis.steps.bfb.value import bfb_reduce_scatter_value as bfb_reduce_scatter_value
from treadle.synthesis.steps.bfb.value import bfb_value as bfb_value
from treadle.synthesis.steps.bfb.value import orbit_value as orbit_value
