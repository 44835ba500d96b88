"""A command's arguments, read so that mistakes are noticed and what need not be typed is filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import BadParameter, TyperException
from typer.core import TyperOption

from treadle.cli.fabric_arguments import FabricCommand
from treadle.cli.usage import refuse_swapped


class Command(FabricCommand):
    """A command that takes none of its options for a value: ``-o --json`` would write a file ``--json``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments into `ctx`; what is left over."""
        if ctx.resilient_parsing:  # half a line, to be completed
            return super().parse_args(ctx, args)
        words: dict[str, Any] = {}
        try:
            # as typed: ./--json is not --json yet
            words, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            first = words.get("topology") or words.get("plan")
            refuse_swapped(ctx.command_path, first, words.get("collective"))
            rest = super().parse_args(ctx, args)
        except TyperException as error:  # told in `usage`, which wants to know more
            parameter = getattr(error, "param", None)
            error.found = None if parameter is None else words.get(parameter.name)  # type: ignore[attr-defined]
            if getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise
        self._check_values(ctx, words)
        return rest

    def _check_values(self, ctx: Any, words: dict[str, Any]) -> None:
        """BadParameter if an option stands where the value of another should."""
        options = [one for one in self.get_params(ctx) if isinstance(one, TyperOption)]
        names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
        for option in options:
            name = option.name or ""
            found = words.get(name)
            for word in found if isinstance(found, list | tuple) else [found]:
                if word in names:
                    is_path = isinstance(ctx.params.get(name), Path)
                    remedy = f" (./{word} is a file of that name)" if is_path else ""
                    message = f"expected a value, found the option {word}{remedy}"
                    raise BadParameter(message, ctx=ctx, param=option)
