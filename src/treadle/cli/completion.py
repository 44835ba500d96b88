"""What a shell offers while a command is being typed: commands, options, fabrics, collectives, files, ...

A shell runs the program with the line so far in COMP_LINE and its own name in `VARIABLE`; it gets a candidate
a line. Only what the line names is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from treadle.cli.help import PROGRAM_OPTIONS
from treadle.cli.status import USAGE, fail, put
from treadle.options.rows import Options, Row
from treadle.options.shared import COLLECTIVES
from treadle.options.verbs import ALIASES, GROUPS, VERBS, table

VARIABLE = "_TREADLE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
OPTIONS = ("--install-completion", "--show-completion")

_BASH = """\
_treadle_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $(COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
                  _TREADLE_COMPLETE=bash "$1" 2>/dev/null) )
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/:=,] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o nosort -F _treadle_completion treadle
"""
_ZSH = """\
#compdef treadle
_treadle_completion() {
    local -a found
    found=("${(@f)$(COMP_LINE="${words[1,CURRENT]}" _TREADLE_COMPLETE=zsh treadle 2>/dev/null)}")
    compadd -Q -S '' -- ${found:#}
}
if [[ "${funcstack[1]}" == "_treadle" ]]; then _treadle_completion "$@"
else compdef _treadle_completion treadle
fi
"""
_FISH = """\
complete --command treadle --no-files --arguments \\
    '(COMP_LINE=(commandline -cp) _TREADLE_COMPLETE=fish treadle)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_UNITS = ("GB/s", "Gbit/s", "MB/s", "Mbit/s", "TB/s", "Tbit/s", "GiB/s", "Gibit/s", "MiB/s")
_METHODS = ("link-mcf", "decomposed-mcf", "fleischer", "cut", "bisection")
_MOST = 400
"""Candidates; more help nobody."""


def set_up(arguments: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Answer ``--show-completion [SHELL]`` and ``--install-completion [SHELL]``; None for other arguments."""
    if not arguments or arguments[0] not in OPTIONS:
        return None
    option, *rest = arguments
    shell = rest[0] if rest else _shell(environment)
    if len(rest) > 1 or shell not in SHELLS:
        return fail(f"{option} {' '.join(rest)}: expected one of {', '.join(SHELLS)} after it", USAGE)
    if option == "--show-completion":
        put(_SCRIPTS[shell])
        return 0
    home = environment.get("HOME")
    if not home:
        return fail("--install-completion: there is no HOME; use --show-completion", USAGE)
    path = _install(shell, Path(home))
    put(f"{shell} completes treadle once it is started again: {path}\n")
    return 0


def _shell(environment: Mapping[str, str]) -> str:
    """The shell that started this process, else the user's own."""
    try:
        name = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        name = ""
    return name if name in SHELLS else Path(environment.get("SHELL", "")).name


def _install(shell: str, home: Path) -> Path:
    """Write the script where the shell finds it, and for bash the line that reads it; returns its place."""
    from treadle.atomic import write_bytes

    place = {
        "bash": home / ".local/share/bash-completion/completions/treadle",
        "zsh": home / ".zfunc/_treadle",
        "fish": home / ".config/fish/completions/treadle.fish",
    }[shell]
    place.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(place, _SCRIPTS[shell].encode())
    lines = {
        "bash": (home / ".bashrc", f'[ ! -f "{place}" ] || source "{place}"'),
        "zsh": (home / ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    }
    if shell in lines:
        start, line = lines[shell]
        text = start.read_text(encoding="utf-8") if start.is_file() else ""
        if line not in text:
            with start.open("a", encoding="utf-8") as file:  # appended: the rest of it is not ours
                file.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
    return place


def complete(environment: Mapping[str, str]) -> int:
    """Print what may stand in the place of the last word of COMP_LINE."""
    words, word = split_line(environment.get("COMP_LINE", ""))
    found = sorted(dict.fromkeys(candidates(words, word)))[:_MOST]
    cut = 0
    if environment[VARIABLE] == "bash":
        # readline replaces what stands after the last character at which it breaks words
        breaks = environment.get("COMP_WORDBREAKS", "")
        cut = max((word.rfind(one) + 1 for one in ":=" if one in breaks), default=0)
    for one in found:
        put(f"{one[cut:]}\n")
    return 0


def split_line(line: str) -> tuple[list[str], str]:
    """The whole words after the program's name, and the one that is being typed.

    Examples
    --------
    >>> split_line("treadle solve dgx"), split_line("treadle solve ")
    ((['solve'], 'dgx'), (['solve'], ''))
    """
    import shlex

    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words += lexer
    except ValueError:  # an open quote: what stands in it so far
        words.append(lexer.token)
    is_open = bool(words) and not line[-1:].isspace()
    last = words.pop() if is_open and len(words) > 1 else ""
    return words[1:], last


def candidates(words: Sequence[str], word: str) -> Iterable[str]:
    """What the word may become."""
    if not words:
        options = [name for name, _ in PROGRAM_OPTIONS]
        return _beginning(word, options if word.startswith("-") else (name.split()[0] for name in VERBS))
    if words[0] in OPTIONS:
        return _beginning(word, SHELLS)
    verb, rest = words[0], list(words[1:])
    if rest and f"{verb} {rest[0]}" in VERBS:
        verb, rest = f"{verb} {rest[0]}", rest[1:]
    if verb in GROUPS and not rest:
        inner = [name.split()[1] for name in VERBS if name.startswith(f"{verb} ")]
        return _beginning(word, ("--help",) if word.startswith("-") else inner)
    verb = ALIASES[verb].verb if verb in ALIASES else verb
    return _of_command(table(verb), rest, word) if verb in VERBS else ()


def _of_command(options: type[Options], words: Sequence[str], word: str) -> Iterable[str]:
    rows = [row for row in options.rows.values() if not row.in_python]
    flags = {
        flag: row for row in rows if not row.is_argument for flag in (row.flag, row.off, row.short) if flag
    }
    places = [row for row in rows if row.is_argument]
    typed, expecting, mesh = list[str](), None, ""
    for one in words:
        if expecting is not None:
            mesh = one if expecting.name == "mesh" else mesh
            expecting = None
        elif one in flags and not flags[one].is_flag:
            expecting = flags[one]
        elif not one.startswith("-"):
            typed.append(one)
        elif one.startswith("--mesh="):
            mesh = one.partition("=")[2]
    if expecting is not None:
        return _values(expecting, word, typed, mesh)
    name, equals, value = word.partition("=")
    if equals and name in flags and not flags[name].is_flag:
        return [f"{name}={one}" for one in _values(flags[name], value, typed, mesh)]
    if word.startswith("-"):
        shown = [one for one, row in flags.items() if one.startswith("--") and not row.rare]
        return _beginning(word, [*shown, "--help", "--help-all"]) or _beginning(word, flags)
    if len(typed) < len(places):
        return _values(places[len(typed)], word, typed, mesh)
    return ()


def _values(row: Row, word: str, typed: Sequence[str], mesh: str) -> Iterable[str]:
    """What an option or argument may be given."""
    if row.choices:
        return _beginning(word, row.known())
    source = row.words or ("files" if "Path" in row.type else _SOURCES.get(row.placeholder, ""))
    match source:
        case "fabrics":
            return [*_fabrics(word), *_files(word)]
        case "collectives" | "algorithms":
            head, comma, last = word.rpartition(",")
            if comma and not row.placeholder.endswith("..."):
                return []
            known = COLLECTIVES if source == "collectives" else _algorithms(typed)
            return [f"{head}{comma}{one}" for one in _beginning(last, known)]
        case "parts":
            return _parts(word, typed)
        case "meshes":
            return _meshes(word, typed)
        case "axes":
            return _axes(word, mesh)
        case "files":
            return _files(word)
        case "models" | "gpus":
            return [*_beginning(word, _words(source)), *_files(word)]
        case _:
            return _beginning(word, _words(source) if source in _LOADED else source.split())


_SOURCES = {
    **dict.fromkeys(("FILE", "PLAN", "PATH", "OTHER", "FOLDER", "FILE,...", "PLAN,..."), "files"),
    **dict.fromkeys(("FILE|NAME", "MODULE.py:FUNCTION", "SET"), "files"),
    **dict.fromkeys(("TOPOLOGY", "PLAN|TOPOLOGY", "FABRIC", "EXPR"), "fabrics"),
    **{"COLLECTIVE": "collectives", "COLLECTIVE,...": "collectives", "MESH": "meshes", "AXES": "axes"},
    **{"UNIT": "units", "MODEL": "models", "GPU": "gpus"},
}
"""What completes a value, by what stands for it in help."""
_LOADED = {
    "units": "treadle.cli.completion:_UNITS",
    "methods": "treadle.cli.completion:_METHODS",
    "packers": "treadle.planning:Packer",
    "models": "treadle.training.models.zoo:MODELS",
    "gpus": "treadle.training.devices:ACCELERATORS",
    "schedules": "treadle.training.prices.fabric_costs:SCHEDULERS",
    "formats": "treadle.planning:all_formats",
    "topology_formats": "treadle.topologies.readers.reader:topology_formats",
}
"""Where names are; of functions, the names of what they return."""


def _words(source: str) -> Iterable[str]:
    """The names of a source."""
    module, _, name = _LOADED[source].partition(":")
    found = getattr(import_module(module), name)
    return (one.name for one in found()) if name.endswith("formats") else found


def _beginning(word: str, known: Iterable[str]) -> list[str]:
    return [str(one) for one in known if str(one).startswith(word)]


def _fabrics(word: str) -> list[str]:
    """Names of the catalogue, with the colon that their arguments stand after."""
    from inspect import signature

    from treadle.topologies.registry import catalogue

    if ":" in word or "(" in word or "/" in word:
        return []
    known = catalogue()
    names = [name for name in known if name.startswith(word.replace("-", "_"))]
    found = []
    for name in names:
        needed = any(one.default is one.empty for one in signature(known[name]).parameters.values())
        found.append(f"{name}:" if needed else name)
    return found


def _typed_fabric(typed: Sequence[str]) -> Any:
    """The first fabric of the catalogue among the words; None if there is none."""
    from treadle.errors import TreadleError
    from treadle.topologies.expressions import names_fabric, parse

    fabrics = [one for one in typed if names_fabric(one)]
    try:
        return parse(fabrics[0]) if fabrics else None
    except TreadleError:
        return None


def _parts(word: str, typed: Sequence[str]) -> list[str]:
    """Nodes of the fabric that was typed, and behind ``A--`` those to which A has a link."""
    fabric = _typed_fabric(typed)
    if fabric is None:
        return []
    listed, comma, last = word.rpartition(",")
    head, names = f"{listed}{comma}", fabric.node_names
    one, arrow, other = last.rpartition("--") if "--" in last else last.rpartition("->")
    if arrow and one in names:
        ends = fabric.heads[fabric.tails == fabric.node_index(one)].tolist()
        return [
            f"{head}{one}{arrow}{name}"
            for name in _beginning(other, dict.fromkeys(names[end] for end in ends))
        ]
    return [f"{head}{name}" for name in _beginning(last, names)]


def _meshes(word: str, typed: Sequence[str]) -> list[str]:
    """Two axes that lay out all compute nodes of the fabric that was typed."""
    fabric = _typed_fabric(typed)
    n = 0 if fabric is None else len(fabric.compute_nodes)
    return _beginning(word, [f"{size},{n // size}" for size in range(2, n // 2 + 1) if n % size == 0])


def _axes(word: str, mesh: str) -> list[str]:
    """Axes of the mesh that was typed, those that stand already left out."""
    from treadle.errors import TreadleError
    from treadle.inputs.meshes import as_mesh

    listed, comma, last = word.rpartition(",")
    try:
        names = as_mesh(mesh).axis_names if mesh else ()
    except TreadleError:
        return []
    free = [name for name in names if name not in listed.split(",")]
    return [f"{listed}{comma}{name}" for name in _beginning(last, free)]


def _algorithms(typed: Sequence[str]) -> list[str]:
    """Those that serve the collective that was typed; all where none was."""
    from treadle.errors import FormatError
    from treadle.inputs.problem import resolve_kind
    from treadle.schedulers.schedulers import schedulers

    kinds = set()
    for word in typed:
        try:
            kinds.add(resolve_kind(word))
        except FormatError:
            continue
    return [one.name for one in schedulers() if not kinds or kinds & set(one.collectives)]


def _files(word: str) -> list[str]:
    """Files and folders that begin so; folders end in a slash."""
    folder, slash, start = word.rpartition("/")
    place = Path(f"{folder}{slash}" or ".").expanduser()
    try:
        entries = [(one.name, one.is_dir()) for one in os.scandir(place)]
    except OSError:
        return []
    shown = [(name, is_folder) for name, is_folder in entries if start.startswith(".") or name[0] != "."]
    return [
        f"{folder}{slash}{name}{'/' if is_folder else ''}"
        for name, is_folder in shown
        if name.startswith(start)
    ]
