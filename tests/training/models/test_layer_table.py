"""Tables of layers by hand, and what cannot be one."""

from __future__ import annotations

import json

import pytest

from treadle.errors import FormatError
from treadle.training.models.layer_table import read_layer_table, read_model


def test_files_are_told_apart() -> None:
    keys = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257}
    assert read_model("\n " + json.dumps(keys)).parameters == 124_439_808
    with pytest.raises(FormatError, match="layer table: line 1: the column layer is missing"):
        read_model("something else")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the column layer is missing"),
        ("layer,parameters\nx,1", "line 1: the column flops is missing"),
        ("layer,parameters,flops,params\nx,1,1,1", "line 1: unknown column 'params'"),
        ("layer,parameters,flops,flops\nx,1,1,1", "two columns have the same name"),
        ("layer,parameters,flops\n", "expected a row per layer"),
        ("layer,parameters,flops\nx,1", "line 2: expected 3 cells, found 2"),
        ("layer,parameters,flops\nx,1,1\nx,1,1", "line 3: expected a new name of a layer, found 'x'"),
        ("layer,parameters,flops\nx,1e9,1", "line 2: parameters: expected an integer"),
        ("layer,parameters,flops\nx,1,-1", "line 2: flops: expected an integer"),
        ("layer,parameters,flops\nx,1," + "9" * 19, "line 2: flops: expected an integer"),
        ("layer,parameters,flops\nx,1,\u0661", "line 2: flops: expected an integer"),
        ("layer,parameters,flops,experts\nx,1,1,8", "line 2: experts, top_k"),
        (
            "layer,parameters,flops,experts,top_k,expert_parameters,routed_elements\nx,1,1,2,3,4,5",
            "top_k .at most as many",
        ),
        ('layer,parameters,flops\n"x,1,1', "malformed CSV"),
        ("layer,parameters,flops\n" + "".join(f"{n},1,1\n" for n in range(10_001)), "at most 10000 layers"),
        ("x" * 5_000_000, "at most 4194304 bytes"),
    ],
)
def test_tables_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        read_layer_table(text)
    assert len(str(error.value)) < 400
