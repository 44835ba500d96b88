"""Click commands made from the tables of options: they read arguments, fill in defaults, run functions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.help import command_help
from treadle.errors import FormatError, TreadleError
from treadle.options.rows import REQUIRED, Row
from treadle.options.verbs import ALIASES, GROUPS, VERBS, Alias, table

if TYPE_CHECKING:
    from treadle.cli.settings.configuration import ChosenSetting


class Command(click.Command):
    """A command that reports mistakes in one line and takes defaults from settings.

    An option is never taken for the value of another: ``-o --json`` would write a file ``--json``.
    """

    def __init__(self, name: str) -> None:
        self.alias = ALIASES.get(name, Alias(name, {}))
        self.table = table(self.alias.verb)
        self.rows = {one.name: one for one in self.table.rows.values() if not one.in_python}
        helps = (click.Option([option], is_flag=True) for option in ("--help", "--help-all"))
        parameters = [*map(_parameter, self.rows.values()), *helps]
        super().__init__(name, params=parameters, add_help_option=False)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments into the options of `ctx`."""
        # loaded here and below: the program's own help and version do without
        from treadle.cli.settings.configuration import chosen_settings
        from treadle.cli.usage import missing, reject_extra, reject_swapped

        words, rest = self._words(ctx, args)
        if words.keys() & {"help", "help_all"}:
            from treadle.cli.status import put

            put(command_help(ctx.command_path, self.alias.verb, in_full="help_all" in words))
            ctx.exit()
        chosen = chosen_settings()
        fabric = chosen.get("fabric")
        if fabric is not None and self._lacks_fabric(words):
            words, rest = self._words(ctx, [fabric.value, *args])
            ctx.meta["treadle.fabric"] = fabric
        reject_swapped(ctx.command_path, words.get("topology") or words.get("plan"), words.get("collective"))
        self._reject_options_as_values(words)
        values = {name: self._value(row, words[name]) for name, row in self.rows.items() if name in words}
        values = self._from_settings(words, chosen) | values
        replaced = {name for given in words for name in self.rows[given].replaces.split()}
        for row in self.rows.values():
            if row.default is REQUIRED and row.name not in {*values, *replaced}:
                raise FormatError(missing(ctx.command_path, self.rows, row, words))
        reject_extra(ctx.command_path, self.rows, rest, words)
        self._check_folders(values)
        ctx.obj = self.table(dict.fromkeys(replaced) | values, words)
        ctx.meta["treadle.settings"] = chosen
        return []

    def _words(self, ctx: Any, args: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Options and arguments as they were typed, and what is left over; ./--json is not --json yet."""
        try:
            found, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError as error:
            error.ctx = ctx  # of a missing value Click does not say whose it is
            raise
        words = {name: value for name, value in found.items() if isinstance(value, str | bool | list | tuple)}
        words = {name: value for name, value in words.items() if value != ()}
        if self.alias.first and "topology" in words:
            words[self.alias.first] = words.pop("topology")
        return dict(self.alias.words) | words, rest

    def _lacks_fabric(self, words: Mapping[str, Any]) -> bool:
        """Whether the fabric is missing, or the collective is in its place."""
        from treadle.cli.usage import is_fabric
        from treadle.input_files import exists

        places = [row.name for row in self.rows.values() if row.is_argument]
        if not places or places[0] not in ("topology", "plan"):
            return False
        if any("topology" in self.rows[name].replaces for name in words if name in self.rows):
            return False
        first = words.get(places[0])
        if "collective" in places:
            alone = first is not None and words.get("collective") is None
            # alone it may be a fabric to which the collective is missing
            return not (is_fabric(str(first)) or exists(str(first))) if alone else first is None
        return places[0] == "topology" and first is None

    def _from_settings(self, words: Mapping[str, Any], chosen: Mapping[str, ChosenSetting]) -> dict[str, Any]:
        """Values of settings for options of this command that were not typed."""
        found = {}
        for row in self.rows.values():
            one = chosen.get(row.config)
            if one is None or row.name in words:
                continue
            if row.config == "profile" and words.get("to") not in (None, "msccl-xml"):
                continue
            if row.config == "cost-model.alpha" and "cost_model" in words:
                continue  # a cost model that is typed has latencies of its own
            found[row.name] = one.read()
        return found

    def _reject_options_as_values(self, words: Mapping[str, Any]) -> None:
        """Raise FormatError if an option is in the place of another's value."""
        options = {name for one in self.params for name in (*one.opts, *one.secondary_opts) if name[0] == "-"}
        for name, found in words.items():
            row = self.rows[name]
            for word in found if isinstance(found, list | tuple) else [found]:
                if word in options and not row.is_argument:
                    fix = f" (./{word} is a file of that name)" if "Path" in row.type else ""
                    raise FormatError(f"{row.label}: expected a value, found the option {word}{fix}")

    def _value(self, row: Row, found: Any) -> Any:
        """Parse what was typed; raise FormatError for an empty file name."""
        if isinstance(found, bool):
            return found
        # Path("") is the current folder; a shell makes such a word from a variable that is not set
        words = found if isinstance(found, list | tuple) else [found]
        if "" in words and (row.name == "plan" or "Path" in row.type):
            raise FormatError(f"{row.label}: expected a file, found nothing")
        return [row.read(one) for one in words] if row.is_list else row.read(found)

    def _check_folders(self, values: Mapping[str, Any]) -> None:
        """Raise FormatError, before any work is done, if the folder of an output file does not exist."""
        from treadle.atomic import check_parent  # --version and --help do not need it

        if values.keys() & {"jobs", "every_failure"}:  # plans of jobs and failures go into a new folder
            return
        for row in self.rows.values():
            found = values.get(row.name) if row.writes else None
            for path in found if isinstance(found, list) else [] if found is None else [found]:
                check_parent(path)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error about a fabric that was not typed names its origin."""
        from treadle import planning
        from treadle.cli.fabric_arguments import fabric_read
        from treadle.cli.output import COMMAND
        from treadle.cli.settings.configuration import cache_in
        from treadle.cli.status import FAILED, fail

        COMMAND.set(self.alias.verb.replace(" ", "-"))
        for row in self.rows.values():
            is_member = isinstance(row.choices, str) and isinstance(row.default, str)
            if is_member and row.name not in ctx.obj.typed:
                setattr(ctx.obj, row.name, row.read(str(getattr(ctx.obj, row.name))))
        group, _, name = self.alias.verb.rpartition(" ")
        module = import_module(f"treadle.cli.{VERBS[self.alias.verb].package}.{group or name}")
        function = getattr(module, f"{name}_command" if group else "command")
        cache = ctx.meta["treadle.settings"].get("cache")
        is_of_file = cache is not None and cache.origin != cache.setting.variable
        log = getattr(ctx.obj, "nccl_log", None)
        with (
            cache_in(cache) if is_of_file else contextlib.nullcontext(),
            planning.library_log(log) if log is not None else contextlib.nullcontext(),
        ):
            try:
                with fabric_read(ctx.obj):
                    return function(ctx.obj)
            except planning.UnverifiedPlanError as error:
                plan = getattr(ctx.obj, "plan", None)
                return fail(f"{plan}: {error}" if isinstance(plan, str | Path) else str(error), FAILED)
            except planning.RejectedError as error:
                return fail(str(error), FAILED)
            except TreadleError as error:
                if (fabric := ctx.meta.get("treadle.fabric")) is not None:
                    error.add_note(f"the fabric is {fabric.value}, of {fabric.origin}")
                raise


def _parameter(row: Row) -> click.Parameter:
    """A row as Click's parser takes it."""
    if row.is_argument:
        return click.Argument([row.name], required=False, nargs=-1 if row.is_list else 1)
    flags = [f"{row.flag}/{row.off}" if row.off else row.flag, *([row.short] if row.short else [])]
    return click.Option([row.name, *flags], is_flag=row.is_flag or None, multiple=row.is_list)


class Commands(click.Group):
    """All commands, or those of a group; only the one that is run is loaded."""

    def __init__(self, name: str = "treadle", **facts: Any) -> None:
        self.prefix = f"{name} " if name in GROUPS else ""
        shown = click.Option(["--help"], is_flag=True, is_eager=True, expose_value=False, callback=self._help)
        parameters = [*facts.pop("params", []), shown]
        super().__init__(name, no_args_is_help=True, add_help_option=False, params=parameters, **facts)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, of groups too."""
        del ctx
        names = (one.removeprefix(self.prefix).split()[0] for one in VERBS if one.startswith(self.prefix))
        return list(dict.fromkeys(names))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, Any, list[str]]:
        """The command's name, the command with its options, and the other arguments."""
        from treadle.cli.usage import unknown_command

        first, *rest = args
        if rest and f"{first} {rest[0]}" in VERBS:
            first, rest = f"{first} {rest[0]}", rest[1:]
        if first in VERBS or first in ALIASES:
            return first, Command(first), rest
        if first in GROUPS:
            return first, Commands(first), rest
        if first.startswith("-") and first != "-":
            self.make_parser(ctx).parse_args(args=[first])  # as Click says it
        raise FormatError(unknown_command(first, ctx.command_path, self.list_commands(ctx)))

    def get_help(self, ctx: Any) -> str:
        """The commands by task, or those of a group."""
        from treadle.cli.help import program_help

        del ctx
        return program_help(self.prefix).rstrip()

    def _help(self, ctx: Any, option: Any, wanted: bool) -> None:
        from treadle.cli.status import put

        del option
        if wanted:
            put(f"{self.get_help(ctx)}\n")
            ctx.exit()
