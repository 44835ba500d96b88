"""Hosts behind network cards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle import topologies as t
from treadle.errors import TopologyError


def test_injection_caps_become_links() -> None:
    ring = replace(t.ring(3), injection_bytes_per_s=np.array([0, 4, 0]))
    slow = t.with_host_bottleneck(ring)
    assert slow.n_nodes == 5
    assert slow.bandwidths.tolist() == [1] * 6 + [4] * 2
    assert not slow.injection_bytes_per_s.any()
    with pytest.raises(TopologyError, match="no injection caps; give the bandwidth"):
        t.with_host_bottleneck(t.ring(3))
