import pytest

from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.topologies import (
    dump_topology,
    load_topology,
    topology_from_json,
)

EXAMPLE = """{"treadle": "topology", "version": 1, "name": "example",
 "nodes": [{"name": "gpu0", "kind": "compute", "injection_bytes_per_s": 5},
           {"name": "sw0", "kind": "switch", "multicast": true, "aggregation": false,
            "extensions": {"rack": 3}}],
 "links": [{"tail": "gpu0", "head": "sw0", "bandwidth_bytes_per_s": 25000000000, "latency_ns": 0},
           {"tail": "gpu0", "head": "sw0", "bandwidth_bytes_per_s": 1, "latency_ns": 700, "extensions": {}}],
 "extensions": {"site": {"row": [1, 2]}}}
"""


def test_optional_keys_and_extensions():
    topology = topology_from_json(parse_json(EXAMPLE))
    assert topology.injection_bytes_per_s.tolist() == [5, 0]
    assert topology.multicast.tolist() == [False, True]
    # a switch works for the ranks that ask unless its file says more
    assert topology.turns_round.tolist() == [False, False]
    assert topology.latencies_ns.tolist() == [0, 700]
    assert topology.n_links == 2
    assert "extensions" not in dump_topology(topology)


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"\xff", (1, 1)), (b"\n\xff", (2, 1)), (b"{\n\n  \xff\xff", (3, 3)), (b"ab\xff\n", (1, 3))],
)
def test_bytes_that_are_no_text_have_a_place(data: bytes, place: tuple[int, int], tmp_path) -> None:
    file = tmp_path / "f.json"
    file.write_bytes(data)
    with pytest.raises(FormatError, match="byte 0xff is not valid UTF-8") as caught:
        load_topology(file)
    assert (caught.value.line, caught.value.column) == place
