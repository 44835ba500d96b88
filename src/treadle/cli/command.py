"""A command's arguments, read so that mistakes are noticed and what need not be typed is filled in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import BadParameter, TyperException
from typer.core import TyperArgument, TyperOption

from treadle.cli.fabric_arguments import OPTIONS_OF_FILES, FabricCommand
from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle.cli.settings.configuration import ChosenSetting

Section = tuple[str, Sequence[tuple[str, str]]]
"""Of a command's help: a title, and names with what they are."""
_CHOSEN = "treadle.settings"
_NAME_WIDTH = 24
_PLAIN_TYPES = {"<str>": "TEXT", "<path>": "FILE", "<int>": "N", "<int range>": "N", "<float>": "X"}
"""What stands for a value whose option names none."""
_TYPE = re.compile(r" (<[^|]*>|TEXT|FILE|N)$")
"""What the parser writes behind an argument, whose name says it."""


class Command(FabricCommand):
    """A command whose mistakes are told in words, and which settings fill in.

    None of its options is taken for a value: ``-o --json`` would write a file ``--json``.
    """

    sections: Callable[[], Sequence[Section]] | None = None
    """Makes what its help has below the options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments into `ctx`; what is left over."""
        # loaded here and below: the program's own help and version do without
        from treadle.cli.settings.configuration import chosen_settings
        from treadle.cli.usage import refuse_swapped

        words: dict[str, Any] = {}
        try:
            words = self._words(ctx, args)
            if not words.get("help"):
                chosen = chosen_settings()
                ctx.meta[_CHOSEN] = chosen
                if "fabric" in chosen and self._lacks_fabric(ctx, words):
                    args = [chosen["fabric"].value, *args]
                    ctx.meta["treadle.fabric"] = chosen["fabric"]
                    words = self._words(ctx, args)
                ctx.default_map = self._defaults(ctx, words, chosen)
            first = words.get("topology") or words.get("plan")
            refuse_swapped(ctx.command_path, first, words.get("collective"))
            self._need_collective(ctx, words)
            rest = super().parse_args(ctx, args)
        except TyperException as error:  # told in `usage`, which wants to know more
            self._describe(error, ctx, words)
            raise
        self._check_values(ctx, words)
        self._check_places(ctx)
        return rest

    def _words(self, ctx: Any, args: Sequence[str]) -> dict[str, Any]:
        """Options and arguments as they were typed: ./--json is not --json yet."""
        words: dict[str, Any] = self.make_parser(ctx).parse_args(args=list(args))[0]
        return words

    def _need_collective(self, ctx: Any, words: Mapping[str, Any]) -> None:
        """Where --jobs may say what is to be done, the collective can be left out beside it only."""
        places = {one.name: one for one in self.get_params(ctx)}
        if "jobs" in places and "collective" in places:
            places["collective"].required = words.get("jobs") is None and not words.get("help")

    def _lacks_fabric(self, ctx: Any, words: Mapping[str, Any]) -> bool:
        """Whether the place of the fabric is empty, or the collective stands there."""
        from treadle.cli.usage import is_fabric

        places = [one.name for one in self.get_params(ctx) if isinstance(one, TyperArgument)]
        if not places or places[0] not in ("topology", "plan"):
            return False
        first = words.get(places[0])
        if "collective" in places:
            alone = first is not None and words.get("collective") is None
            # alone it may be a fabric to which the collective is missing
            return not (is_fabric(str(first)) or _exists(str(first))) if alone else first is None
        if words.get("plan") or words.get("clean"):  # of testbed, instead of a fabric
            return False
        return places[0] == "topology" and first is None

    def _defaults(
        self, ctx: Any, words: Mapping[str, Any], chosen: Mapping[str, ChosenSetting]
    ) -> dict[str, str]:
        """Values of settings that stand for options of this command."""
        known = {one.name for one in self.get_params(ctx) if isinstance(one, TyperOption)}
        found = {}
        for one in chosen.values():
            setting = one.setting
            if setting.parameter not in known or (setting.commands and ctx.info_name not in setting.commands):
                continue
            if setting.key == "profile" and words.get("to") not in (None, "msccl-xml"):
                continue
            if setting.parameter == "alpha" and words.get("cost_model") is not None:
                continue  # a cost model that is typed has latencies of its own
            if words.get(setting.parameter) is None:
                one.check()
                found[setting.parameter] = one.value
        return found

    def _describe(self, error: Any, ctx: Any, words: Mapping[str, Any]) -> None:
        """Add to an error of the parser what its message needs: the value that was typed."""
        name = getattr(getattr(error, "param", None), "name", None)
        error.found = words.get(name or "")
        if getattr(error, "ctx", None) is None:
            error.ctx = ctx

    def _check_values(self, ctx: Any, words: Mapping[str, Any]) -> None:
        """BadParameter if an option stands where another's value should, or nothing where a file should."""
        for one in self.get_params(ctx):
            if not isinstance(one, TyperArgument | TyperOption):
                continue
            name = one.name or ""
            # Path("") is the folder one is in; a shell makes such a word of a variable that is not set
            if words.get(name) == "" and (name == "plan" or isinstance(ctx.params.get(name), Path)):
                raise BadParameter("expected a file, found nothing", ctx=ctx, param=one)
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

    def _check_places(self, ctx: Any) -> None:
        """FormatError, before there is any work, if a file to be written (`writable`) has no folder."""
        from treadle.atomic import check_parent  # --version and --help do not need it

        for option in self.get_params(ctx):
            if not is_written(option):
                continue
            found = ctx.params.get(option.name)
            if found is not None and ctx.params.get("jobs") is None:  # plans of jobs go into a new folder
                for path in found if isinstance(found, list | tuple) else [found]:
                    check_parent(path)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error about a fabric that was not typed says where it comes from."""
        from treadle.cli.output import COMMAND
        from treadle.cli.settings.configuration import cache_in

        COMMAND.set(ctx.command_path.removeprefix("treadle ").replace(" ", "-"))
        chosen: Mapping[str, ChosenSetting] = ctx.meta.get(_CHOSEN, {})
        cache = chosen.get("cache")
        is_of_file = cache is not None and cache.origin != cache.setting.variable
        with cache_in(cache) if is_of_file else contextlib.nullcontext():
            try:
                return super().invoke(ctx)
            except TreadleError as error:
                if (fabric := ctx.meta.get("treadle.fabric")) is not None:
                    error.add_note(f"the fabric is {fabric.value}, of {fabric.origin}")
                raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options, and below them what else the command has to tell."""
        from treadle.cli.terminal_table import wrapped

        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                title = "Arguments" if isinstance(one, TyperArgument) else "Options"
                name, said = record[0], record[1].replace("[required]", "").rstrip()
                for found, plain in _PLAIN_TYPES.items():
                    name = name.replace(found, plain)
                if title == "Arguments":
                    name = _TYPE.sub("", name)
                rows[title].append((name, said))
        more = self.sections() if self.sections is not None else ()
        for heading, several in (*rows.items(), *more):
            if several:
                formatter.write("\n".join(["", f"{heading}:", *help_rows(several, formatter.width), ""]))
            if several is rows["Options"] and self.takes_files:
                formatter.write("\n".join(["", *wrapped(OPTIONS_OF_FILES, formatter.width), ""]))


def is_written(parameter: Any) -> bool:
    """Whether an option names a file that the command writes: those are declared `writable`."""
    descriptor = getattr(parameter, "type_descriptor", None)
    return bool(getattr(getattr(descriptor, "parameter_info", None), "writable", False))


def help_rows(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Names, and beside them what they are; a name that is long has a line of its own."""
    from treadle.cli.terminal_table import wrapped

    column = 4 + min(_NAME_WIDTH, max(len(name) for name, _ in rows))
    lines: list[str] = []
    for name, said in rows:
        if len(name) + 4 > column:
            lines += [f"  {name}", *wrapped(" " * column + said, width, indent=column)]
        else:
            lines += wrapped(f"  {name}".ljust(column) + said, width, indent=column)
    return [line.rstrip() for line in lines]


def _exists(path: str) -> bool:
    """Whether there is a file; false where the system cannot even look."""
    with contextlib.suppress(OSError, ValueError):
        return Path(path).exists()
    return False
