"""Recommendation models: large sharded tables of embeddings between small replicated products.

Naumov et al. 2019 (DLRM). Expert parallelism shards the rows of the tables. Each sample's rows are looked up
by the ranks that hold them, and exchanged once forward (rows) and once backward (their gradients).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from treadle.training.models.model_layer import ModelLayer, Saved, Weight, Work, WorkKind, product_work
from treadle.training.models.training_model import TrainingModel

ROW_MULTIPLE = 61_440
"""Rows are padded to a multiple of this (2^12 x 15), so that they can be cut evenly; .03% for Criteo."""
CRITEO_ROWS = 187_767_403
"""Rows of the 26 tables of MLPerf's benchmark: Criteo 1TB, at most 40 million a table."""
CRITEO_TABLES = 26


def dlrm(
    name: str,
    *,
    rows: int,
    tables: int,
    width: int,
    bottom: Sequence[int],
    top: Sequence[int],
    source: str = "",
) -> TrainingModel:
    """Return a recommendation model.

    Parameters
    ----------
    name : str
    rows, tables, width : int
        Rows of all tables together, number of tables, elements of a row.
    bottom : sequence of int
        Widths of the products of dense features, input first; the last is `width`.
    top : sequence of int
        Widths of the products after the interaction.
    source : str
    """
    filled = -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE
    looked_up = tables * width
    lookup = ModelLayer(
        "tables",
        weights=(Weight("tables", filled * width, split=False, expert=True),),
        works=(Work("rows", WorkKind.LOOKUP, moved_elements=2 * looked_up, split=False, expert=True),),
        saved=(Saved("numbers", 2 * tables, split=False),),  # of 32 bits
        boundary_elements=looked_up,
        experts=filled,
        top_k=tables,
        routed_elements=looked_up,
        exchanges=1,
    )
    vectors = tables + 1
    # each pair of vectors once; the output also has the dense features' vector
    crossed = vectors * (vectors - 1) // 2
    flops, moved = 2 * vectors * vectors * width, vectors * width + crossed
    interaction = ModelLayer(
        "interaction",
        works=(Work("pairs", WorkKind.MATMUL, flops=flops, moved_elements=moved, split=False),),
        saved=(Saved("vectors", vectors * width, split=False),),
        boundary_elements=crossed + width,
    )
    before, after = _products("bottom", bottom), _products("top", (crossed + width, *top))
    return TrainingModel(name, (lookup, *before, interaction, *after), unit="sample", source=source)


def _products(name: str, widths: Sequence[int]) -> list[ModelLayer]:
    return [
        ModelLayer(
            f"{name} {index}",
            weights=(Weight("matrix", (rows + 1) * columns, split=False),),
            # the activation reads and writes the product's result
            works=(
                replace(
                    product_work("product", rows, columns, split=False), moved_elements=rows + 3 * columns
                ),
            ),
            saved=(Saved("input", rows, split=False),),
            boundary_elements=columns,
        )
        for index, (rows, columns) in enumerate(pairwise(widths))
    ]


def criteo_dlrm() -> TrainingModel:
    """Return the model of MLPerf Training 0.7 to 2.1."""
    return dlrm(
        "dlrm",
        rows=CRITEO_ROWS,
        tables=CRITEO_TABLES,
        width=128,
        bottom=(13, 512, 256, 128),
        top=(1024, 1024, 512, 256, 1),
        source="Naumov et al. 2019; dimensions of MLPerf Training's benchmark on Criteo 1TB",
    )
