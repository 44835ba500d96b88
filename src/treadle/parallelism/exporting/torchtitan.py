"""A layout as settings of torchtitan: degrees of parallelism and activation checkpoints, in TOML."""

from __future__ import annotations

import json
from math import prod

from treadle.errors import InfeasibleError
from treadle.parallelism.exporting.export_layout import ExportLayout, RecomputeSetting, WeightUse
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.unsupported import Unsupported

_ORDER = (WeightUse.PIPELINE, WeightUse.REPLICATED, WeightUse.SHARDED, WeightUse.CONTEXT, WeightUse.TENSOR)
"""Axes of torchtitan's mesh, the slowest first."""
_KEYS = {
    WeightUse.PIPELINE: "pipeline_parallel_degree",
    WeightUse.REPLICATED: "data_parallel_replicate_degree",
    WeightUse.SHARDED: "data_parallel_shard_degree",
    WeightUse.CONTEXT: "context_parallel_degree",
    WeightUse.TENSOR: "tensor_parallel_degree",
}


def torchtitan_settings(layout: ExportLayout, plan: ParallelPlan) -> str:
    """Return the sections ``[parallelism]`` and ``[activation_checkpoint]`` of torchtitan.

    Parameters
    ----------
    layout : Layout
    plan : ParallelPlan
        Whose pipeline it is.

    Raises
    ------
    InfeasibleError
        If the mesh has another order of axes than torchtitan's.
    """
    uses = [use for _, use in layout.axes.values() if use is not WeightUse.NONE]
    if uses != sorted(uses, key=_ORDER.index):
        found = ", ".join(f"{name} ({use.value})" for name, (_, use) in layout.axes.items())
        raise InfeasibleError(
            f"export: the mesh is {found}; torchtitan's has pipeline, replicating, sharding, context and "
            "tensor axes in this order"
        )
    lines = [
        f"# Layout of {layout.model}, written by treadle.",
        "# What the plan says beyond these settings:",
    ]
    lines += [f"# - {one.place}: {one.reason}" for one in unsaid_by_settings(layout)] or ["# nothing"]
    settings: dict[str, int | str] = {
        _KEYS[use]: prod(layout.axes[name][0] for name in layout.of_use(use)) for use in _ORDER
    }
    settings["fsdp_reshard_after_forward"] = "always" if layout.gathers_again else "never"
    if plan.pipeline is not None:
        is_plain = plan.pipeline.interleave == 1
        settings["pipeline_parallel_schedule"] = "1F1B" if is_plain else "Interleaved1F1B"
    blocks = [part for part in layout.parts if part.repeats > 1] or layout.parts
    modes = {part.recompute for part in blocks}
    mode = modes.pop() if len(modes) == 1 else RecomputeSetting.SOME
    lines += ["# For torchtitan up to 0.2 (--job.config_file). Later ones have no such file, but options:"]
    lines += [f"#   --parallelism.{key} {value}" for key, value in settings.items()]
    lines += [f"#   activation-checkpoint:{mode.value}"]
    lines += ["", "[parallelism]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    lines += ["", "[activation_checkpoint]", f'mode = "{mode.value}"']
    if mode is RecomputeSetting.SOME:
        lines.append('selective_ac_option = "op"')
    return "\n".join(lines) + "\n"


def unsaid_by_settings(layout: ExportLayout) -> tuple[Unsupported, ...]:
    """Return the parts of the plan that the settings do not express."""
    found = list(layout.lost)
    if layout.of_use(WeightUse.TENSOR) and not layout.cuts_sequence:
        reason = "sequences stay whole; torchtitan cuts them along the tensor axis"
        found.append(Unsupported(reason, "boundary"))
    for part in layout.parts:
        if part.recompute is RecomputeSetting.SOME:
            kept = f"{sum(part.saved_products)} of {len(part.saved_products)}"
            reason = f"{kept} products are kept; the option 'op' keeps every second one and attention"
            found.append(Unsupported(reason, part.name))
        found += [
            Unsupported("is sharded by its second dimension", f"{part.name}: {weight.path}")
            for weight in part.weights
            if weight.shard_dim
        ]
    return tuple(found)
