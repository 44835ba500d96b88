"""Third-party measurements: training steps, with a model fitted on one row, and collectives."""

from __future__ import annotations

from treadle.reproduction.paper_figure import FigureBasis, PaperFigure, simulated

_ANCHORS = "treadle.reproduction.training_anchors"
STEP = "simulated steps"

OUTSIDE = (
    simulated(
        "torchtitan-2024-12",
        "Llama 3.1 8B, FSDP on 8 and 128 H100",
        f"{_ANCHORS}:torchtitan",
        place="torchtitan, benchmarks of December 2024, tables 1 and 3",
        model=f"{STEP} (roofline with the efficiency of the 8-GPU row, 0.85 of Treadle's rates, kappa 1)",
        quick_s=0.5,
    ),
    simulated(
        "llama-3-table-4",
        "405B on 8192 and 16384 H100",
        f"{_ANCHORS}:llama_405b",
        place="The Llama 3 Herd of Models, table 4",
        model=f"{STEP} (roofline with the efficiency of the first row)",
        quick_s=5,
        full=(14, "interleave 2 and 4"),
    ),
    simulated(
        "deepseek-v3",
        "671B on 2048 H800",
        f"{_ANCHORS}:deepseek_v3",
        place="DeepSeek-V3 Technical Report, sections 1 to 4",
        model=f"{STEP} (roofline at 0.6 of the fp8 peak; nothing fitted)",
        quick_s=3,
    ),
    PaperFigure(
        "measured",
        "NCCL in one box: achievable beside measured",
        "treadle.reproduction.measured_times:measured",
        place="rows of ai-dynamo/aiconfigurator",
        basis=FigureBasis.FITTED,
        model="curves over sizes (constants of these rows)",
        quick_s=0.1,
    ),
)
