"""A command's arguments, read so that a forgotten value is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand, TyperOption


class Command(TyperCommand):
    """A command that takes none of its options for a value: ``-o --json`` would write a file ``--json``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments into `ctx`; what is left over."""
        typed = list(args)
        rest = super().parse_args(ctx, args)
        words, _, _ = self.make_parser(ctx).parse_args(args=typed)  # as typed: ./--json is not --json yet
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
        return rest
