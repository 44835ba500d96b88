# written by `python -m tools.keywords`

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.searches.fresh import SearchLimit
from treadle.inputs.fabrics_and_plans import SizesLike
from treadle.inputs.meshes import AxesLike
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.mesh import Mesh
from treadle.simulation.cost_models import CostModelLike
from treadle.synthesis.scheduler_options import Form, SizeRequest
from treadle.topologies.readers.imported import LinkSpeeds, PcieDetail
from treadle.training.prices.measured_network import NetworkEfficiency

TABLES: Mapping[str, str]
HOMES: Mapping[str, str]

def annotations_of(name: str) -> dict[str, str]: ...
def types_of(keywords: Any) -> dict[str, Any]: ...

class ProblemOptions(TypedDict, total=False):
    without: Sequence[str] | str | None
    file_format: str | None
    weights: Sequence[int] | None
    demands: Demands | Path | str | None
    ranks: Sequence[int] | str | None
    forward: bool
    root: int | str | None
    mesh: Mesh | str | None
    axes: AxesLike | None

class BoundOptions(TypedDict, total=False):
    sizes: SizesLike
    without: Sequence[str] | str | None
    file_format: str | None
    weights: Sequence[int] | None
    demands: Demands | Path | str | None
    ranks: Sequence[int] | str | None
    forward: bool
    root: int | str | None
    mesh: Mesh | str | None
    axes: AxesLike | None
    cost_model: CostModelLike | None

class ComparisonOptions(TypedDict, total=False):
    without: Sequence[str] | str | None
    file_format: str | None
    weights: Sequence[int] | None
    demands: Demands | Path | str | None
    ranks: Sequence[int] | str | None
    forward: bool
    root: int | str | None
    mesh: Mesh | str | None
    axes: AxesLike | None
    cost_model: CostModelLike | None

class SizeSetOptions(TypedDict, total=False):
    without: Sequence[str] | str | None
    file_format: str | None
    weights: Sequence[int] | None
    demands: Demands | Path | str | None
    ranks: Sequence[int] | str | None
    forward: bool
    root: int | str | None
    mesh: Mesh | str | None
    axes: AxesLike | None
    cost_model: CostModelLike | None

class OptionKeywords(TypedDict, total=False):
    size: SizeRequest | None
    height: int | None
    multicast: bool
    factors: Sequence[int] | None
    exchanged: Sequence[int] | None
    chunks: int | None
    parts: int | None
    rounds: Sequence[int] | None
    steps: int | None
    max_steps: int | None
    symmetric: bool
    max_flows: int | None
    trees: int | None
    max_trees: int | None
    exact: bool
    packer: str | None
    form: Form | str
    trim: bool
    max_layers: int | None
    layer_changes: bool
    max_routes: int | None
    max_hops: int | None
    seed: int

class SolveKeywords(TypedDict, total=False):
    without: Sequence[str] | str | None
    file_format: str | None
    weights: Sequence[int] | None
    demands: Demands | Path | str | None
    ranks: Sequence[int] | str | None
    forward: bool
    root: int | str | None
    mesh: Mesh | str | None
    axes: AxesLike | None
    size: SizeRequest | None
    height: int | None
    multicast: bool
    factors: Sequence[int] | None
    exchanged: Sequence[int] | None
    chunks: int | None
    parts: int | None
    rounds: Sequence[int] | None
    steps: int | None
    max_steps: int | None
    symmetric: bool
    max_flows: int | None
    trees: int | None
    max_trees: int | None
    exact: bool
    packer: str | None
    form: Form | str
    trim: bool
    max_layers: int | None
    layer_changes: bool
    max_routes: int | None
    max_hops: int | None
    seed: int

class ForestKeywords(TypedDict, total=False):
    trees: int | None
    max_trees: int | None
    exact: bool
    packer: str | None
    form: Form | str
    trim: bool

class TextKeywords(TypedDict, total=False):
    in_place: bool
    channels: int
    instances: int | None
    name: str | None
    pipeline_bytes: int
    size_bytes: int
    consolidate: bool
    rank: int | None
    chunks: int | str
    accept_any_root: bool
    protocol: str | None
    min_size_bytes: int
    max_size_bytes: int

class ImportKeywords(TypedDict, total=False):
    boxes: int | None
    network: str | None
    nic_bandwidth: float | str | None
    gpu: str | None
    links: LinkSpeeds | str | None
    pcie: PcieDetail | str | None
    pcie_bandwidth: float | str | None
    cpu_link: float | str | None
    trays: int | None
    nics: str | None
    bandwidth: float | str | None
    undirected: bool | None
    oversubscription: str | None
    chunk_size: int | str | None

class DesignKeywords(TypedDict, total=False):
    bidirectional: bool
    reconfiguration_delay_s: float | None
    alltoall: AlltoallRates
    search: SearchLimit | None
    seed: int
    topology: str | None
    cache: Path | None
    use_cache: bool

class TrainKeywords(TypedDict, total=False):
    batch: int | None
    sequence: int | str | Mapping[str, int] | None
    micro_batches: int
    interleave: int
    bucket_bytes: int | None
    prefetch: int
    reshard: bool | None
    zero: int
    sequence_parallel: bool
    context_exchange: str
    recompute: str
    fused_attention: bool
    precision: str | None
    gradients: str | None
    layer_times: Path | str | None
    efficiency: float | None
    memory_efficiency: float | None
    calibrate_s: float | None
    contention: str | float | None
    network_efficiency: NetworkEfficiency | float | str | Sequence[str] | None
    streams: str
    capacity_factor: float
    alltoall_overtakes: bool
    alpha_s: float | None
    cost_model: CostModelLike | None
    forward: bool
    simulates: bool
    samples: bool
    file_format: str | None

class ParallelizeKeywords(TypedDict, total=False):
    sequence: int | str | None
    memory_bytes: int | None
    overlap: str
    constraints: Mapping[str, str]
    schedule: str
    micro_batches: int | None
    interleave: int | None
    zero: int
    mixed: bool
    gap: float
    efficiency: float | None
    memory_efficiency: float
    alpha_s: float | None
    forward: bool
    time_limit_s: float | None
    file_format: str | None
