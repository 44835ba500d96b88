"""Execution plans in MSCCL++: registered from Python, with one selector for all of them.

Written from the sources of microsoft/mscclpp (commit 1f5f065d, August 2026) and tested against a stand-in
that has their names and signatures; never run with MSCCL++ itself.
"""

from __future__ import annotations

from treadle.mscclpp.mscclpp_algorithms import register
from treadle.mscclpp.plan_rows import PlanRow

__all__ = ["PlanRow", "register"]
