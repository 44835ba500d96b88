"""All-to-all: the optimal rate, and schedules that come near it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.alltoall.rate.certificate import RateResult as RateResult
    from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow as ConcurrentFlow
    from treadle.synthesis.alltoall.rate.flow import check_flow as check_flow
    from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance as FlowInstance
    from treadle.synthesis.alltoall.rate.flow_instance import flow_instance as flow_instance
    from treadle.synthesis.alltoall.rate.rate import optimal_rate as optimal_rate
else:
    __all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
