"""The commands of the page on comparisons run, in the order in which they stand."""

from __future__ import annotations

SHARES = {
    "torus:4,4": {"tacos": 100.0, "te-ccl": 93.8},
    "mesh:4,4": {"tto": 91.3},
    "torus:3,3": {"te-ccl-alltoall": 100.0, "taccl-alltoall": 100.0},
    "dgx_a100:2": {"taccl": 98.9},
    "mi250:2": {"blink": 37.9},
}
"""Of the optimum, per cent, of peers on the page."""
