"""Tables of tests as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def toml_text(tables: Mapping[str, Any]) -> str:
    """One line for each key: values of JSON are inline tables once ``:`` is ``=``."""
    return "".join(f"{key} = {json.dumps(value).replace(': ', ' = ')}\n" for key, value in tables.items())
