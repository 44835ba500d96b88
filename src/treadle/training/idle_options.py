"""Options that would change nothing: refused, so that nobody takes a step for what it is not."""

from __future__ import annotations

from treadle.errors import FormatError
from treadle.schedules.mesh import Mesh
from treadle.training.forms.axes import ParallelLayout
from treadle.training.models.model_layer import WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.training_options import ContextExchange, Recompute, TrainingOptions


def check_options_matter(model: TrainingModel, mesh: Mesh, options: TrainingOptions) -> None:
    """Refuses what is asked of a form of parallelism that the mesh lacks, or of works that the model lacks.

    Raises
    ------
    FormatError
        Naming the first such option and what it needs.
    """
    layout = ParallelLayout(mesh)
    has_buckets = layout.size("fsdp") == 1 and any(layout.replica_axes(expert=one) for one in (False, True))
    is_exchanging = layout.size("ep") > 1
    attends = any(work.kind is WorkKind.ATTENTION for layer in model.layers for work in layer.works)
    asked = (
        ("--prefetch", options.prefetch != 1, layout.size("fsdp") > 1, "an axis fsdp"),
        ("--reshard", options.reshard_after_forward is not None, layout.size("fsdp") > 1, "an axis fsdp"),
        ("--no-sequence-parallel", not options.sequence_parallel, layout.size("tp") > 1, "an axis tp"),
        (
            "--context-exchange ring",
            options.context_exchange is ContextExchange.RING,
            layout.size("cp") > 1,
            "an axis cp",
        ),
        ("--capacity-factor", options.capacity_factor != 1, is_exchanging, "an axis ep"),
        ("--alltoall-overtakes", options.alltoall_overtakes, is_exchanging, "an axis ep"),
        (
            "--bucket",
            options.bucket_bytes is not None,
            has_buckets,
            "replicas (dp, cp or ep) without fsdp",
        ),
    )
    for name, is_asked, matters, need in asked:
        if is_asked and not matters:
            raise FormatError(f"{name}: it needs {need}, which mesh {mesh.text} lacks; leave it out")
    if options.recompute is Recompute.ATTENTION and not attends:
        raise FormatError(f"--recompute attention: {model.name} has no attention: leave it out, or say full")
    if not options.has_fused_attention and not attends:
        raise FormatError(f"--no-fused-attention: {model.name} has no attention: leave it out")
    if options.recompute is Recompute.ATTENTION and options.has_fused_attention:
        raise FormatError(
            "--recompute attention: a fused kernel keeps no scores and computes them again by itself; leave "
            "it out, or say --no-fused-attention"
        )
