"""Every public name is documented, with an example that a reader can copy."""

from __future__ import annotations

import inspect

import treadle
from treadle import planning


def public_names() -> dict[str, object]:
    """Functions and classes of `treadle`, and those of `treadle.planning` that are not there."""
    found = {f"treadle.{name}": getattr(treadle, name) for name in treadle.__all__}
    for name in set(planning.__all__) - set(treadle.__all__):
        found[f"treadle.planning.{name}"] = getattr(planning, name)
    return {name: value for name, value in sorted(found.items()) if callable(value)}


def test_every_name_says_what_it_is() -> None:
    assert len(public_names()) > 200
    for name, value in public_names().items():
        text = inspect.getdoc(value) or ""
        assert ">>> " in text, name
        own = name.rsplit(".", 1)[1]
        assert not text.startswith(f"{own}("), name  # what dataclass writes where nobody does
        if inspect.isclass(value):
            assert "__doc__" in vars(value), name
