"""What configurations and tables leave out, and numbers at their limits."""

from __future__ import annotations

import re

import pytest

from treadle.errors import FormatError
from treadle.training.models.layer_table import read_layer_table

HEADER = (
    "layer,parameters,flops,flops_per_context,moved_elements,output_elements,saved_elements,reductions,experts,top_k,"
    "expert_parameters,expert_flops,routed_elements"
)


@pytest.mark.parametrize("cells", ["3,2,1,,", "3,,1,,1", "3,2,,,1", ",1,,,", "3,4,1,,1"])
def test_experts_need_all_of_their_columns(cells: str) -> None:
    message = (
        "layer table: line 2: experts, top_k (at most as many), expert_parameters and routed_elements: "
        "expected all of them, or none"
    )
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_layer_table(f"{HEADER}\nb,0,13,,,,,,{cells}\n")
