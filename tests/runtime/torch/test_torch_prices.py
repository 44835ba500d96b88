"""Prices in compilers of PyTorch: what they schedule, with fake process groups and devices."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
import torch.distributed as dist
from torch import nn

import treadle
from treadle.errors import MissingDependencyError
from treadle.torch import autoparallel_cost, autoparallel_prices, inductor_estimator

WIDTH, TOKENS = 4096, 8192


@pytest.fixture
def mesh() -> Iterator[Any]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=16)
    yield dist.device_mesh.init_device_mesh("cpu", (2, 8), mesh_dim_names=("dp", "tp"))
    dist.destroy_process_group()


def all_gather_nodes(mesh: Any) -> list[torch.fx.Node]:
    """Graph nodes of an allgather of 4 to 32 MB over each axis, and a wait."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    gather = torch.ops._c10d_functional.all_gather_into_tensor
    names = [mesh.get_group(axis).group_name for axis in ("dp", "tp")]
    with FakeTensorMode():
        part = torch.empty(2**20, dtype=torch.float32)
        graph = make_fx(lambda x: [gather(x, 2, names[0]), gather(x, 8, names[1])])(part)
    return [node for node in graph.graph.nodes if node.op == "call_function"]


def test_inductor_asks_for_time_of_size(mesh: Any) -> None:
    """Milliseconds of the output's size; sizes given in its place are of inputs and outputs together."""
    estimate = inductor_estimator("dgx_h100:2")
    across, within = all_gather_nodes(mesh)
    expected = treadle.price("dgx_h100:2", "2,8:0", "allgather", "8MB").time_s
    assert estimate(across, None) == pytest.approx(1e3 * expected)
    assert estimate(across, 2**22 + 2**23) == estimate(across, None)
    assert estimate(within, None) == pytest.approx(
        1e3 * treadle.price("dgx_h100:2", range(8), "allgather", "32MB").time_s
    )
    small = treadle.price("dgx_h100:2", range(8), "allgather", 1).time_s
    assert estimate(within, 0) == pytest.approx(1e3 * small)
    assert estimate(next(iter(within.graph.nodes)), None) is None


class Sharded(nn.Module):  # type: ignore[misc]
    """Linear layer whose weight is sharded over a mesh and gathered where it is used."""

    def __init__(self, mesh: Any) -> None:
        from torch.distributed.tensor import DTensor, Shard

        super().__init__()
        part = torch.empty(WIDTH // mesh.size(), WIDTH, dtype=torch.bfloat16)
        self.weight = nn.Parameter(DTensor.from_local(part, mesh, [Shard(0)], run_check=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch.distributed.tensor import Replicate

        return x @ self.weight.redistribute(placements=[Replicate()]).to_local()


def compiled_order(mesh: Any, fabric: str) -> str:
    """Collectives and products of a compiled model in the order of Inductor's pass: g and m."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.fx_passes.overlap_scheduling import schedule_overlap_bucketing_from_inductor_configs
    from torch._subclasses.fake_tensor import FakeTensorMode

    found: list[str] = []

    def compiler(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        del inputs
        schedule_overlap_bucketing_from_inductor_configs(graph)
        letters = {"_c10d_functional.all_gather_into_tensor.default": "g", "aten.mm.default": "m"}
        found.append("".join(letters.get(str(node.target), "") for node in graph.graph.nodes))
        return graph

    torch._dynamo.reset()
    settings = "aten_distributed_optimizations"
    changes = {
        f"{settings}.custom_runtime_estimation": inductor_estimator(fabric),
        f"{settings}.compute_estimator": "analytical",
        f"{settings}.pre_bucketing_fsdp_collectives": False,
        f"{settings}.max_memory_increase_gb": 10.0,
        f"{settings}.max_memory_increase_ratio": None,
    }
    with FakeTensorMode(), torch._inductor.config.patch(changes), torch.no_grad():
        model = nn.Sequential(*(Sharded(mesh) for _ in range(6)))
        x = torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16)
        torch.compile(model, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)(x)
    return found[-1]


@pytest.mark.skipif(torch.__version__ < "2.13", reason="older overlap scheduling has other settings")
def test_compiled_fsdp_model_is_ordered_by_prices(mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product takes 0.28 ms on a fake H100: two allgathers by NVLink, a third of one across hosts."""
    for module in (importlib.import_module("torch.utils._runtime_estimation"), torch._inductor.utils):
        monkeypatch.setattr(module, "get_gpu_dram_gbps", lambda: 3350.0)
        monkeypatch.setattr(module, "get_device_tflops", lambda _: 990.0)
    assert compiled_order(mesh["tp"], "dgx_h100:2") == "gggmggmgmmmm"
    assert compiled_order(mesh["tp"], "dgx_h100(16, gpus_per_box=1)") == "ggmgmgmgmgmm"


STAND_IN = """
_comms_cost_cache = {}

def collective_comm_cost(collective, comm_bytes, mesh_shape, mesh_dim, mesh_topo=None):
    return -1.0

def reset_comms_cost_cache():
    _comms_cost_cache.clear()

def estimate_strategy_comms_cost(src_spec, tgt_spec):
    if (src_spec, tgt_spec) not in _comms_cost_cache:
        n = src_spec.mesh.size()
        size = src_spec.tensor_meta.shape.numel() * 4
        _comms_cost_cache[src_spec, tgt_spec] = collective_comm_cost("allgather", size, (n,), 0, None)
    return _comms_cost_cache[src_spec, tgt_spec]
"""


@pytest.fixture(params=["stand-in", "source"])
def autoparallel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Its module of costs: one of the same signatures, and the real one in the folder AUTOPARALLEL_SOURCE."""
    place = tmp_path
    if request.param == "source":
        if not (source := os.environ.get("AUTOPARALLEL_SOURCE")):
            pytest.skip("AUTOPARALLEL_SOURCE names no folder with the source of meta-pytorch/autoparallel")
        place = Path(source)
    else:
        package = tmp_path / "autoparallel" / "cost_models"
        package.mkdir(parents=True)
        (package / "collective_runtime_estimation.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(place)
    yield importlib.import_module("autoparallel.cost_models.collective_runtime_estimation")
    for name in [name for name in sys.modules if name.partition(".")[0] == "autoparallel"]:
        del sys.modules[name]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_autoparallel_takes_prices_and_returns_to_its_own(autoparallel: Any, mesh: Any) -> None:
    """Ranks on hosts of one GPU each gather over the network; one host's ranks by NVLink."""
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    flat = mesh._flatten("all")
    tensor = DTensor.from_local(torch.empty(2**16), flat, [Shard(0)], run_check=False)
    spec = tensor._spec
    whole = DTensorSpec(flat, (Replicate(),), spec.tensor_meta)
    before = autoparallel.estimate_strategy_comms_cost(spec, whole)
    for fabric in ("dgx_h100(16, gpus_per_box=1)", "gb200_nvl72(1, gpus_per_rack=16)"):
        with autoparallel_prices(fabric):
            found = autoparallel.estimate_strategy_comms_cost(spec, whole)
        assert found == pytest.approx(1e6 * treadle.price(fabric, "*", "allgather", "4MB").time_s)
    assert autoparallel.estimate_strategy_comms_cost(spec, whole) == before


def test_costs_of_mesh_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = autoparallel_cost("mi300x:2", kind="library-model")
    expected = treadle.price("mi300x:2", "2,8:1", "reduce-scatter", "8MB").time_s
    assert cost("reduce_scatter", 2**23, (2, 8), 1) == pytest.approx(1e6 * expected)
    assert cost("allreduce", 2**23, (16, 1), 1) == 0
    monkeypatch.setitem(sys.modules, "autoparallel", None)
    with pytest.raises(MissingDependencyError, match="meta-pytorch/autoparallel"):
        autoparallel_prices("mi300x:2").__enter__()
