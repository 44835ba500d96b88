"""All-to-all: the optimal rate, and schedules that come near it."""

from treadle.synthesis.alltoall.certificate import RateResult
from treadle.synthesis.alltoall.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.instance import FlowInstance, flow_instance
from treadle.synthesis.alltoall.rate import optimal_rate

__all__ = ["ConcurrentFlow", "FlowInstance", "RateResult", "check_flow", "flow_instance", "optimal_rate"]
