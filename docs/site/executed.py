"""Blocks that run while the site is built, one after another, in a folder of their page's own.

``{file} NAME`` writes its text into a file; ``{run}`` runs commands, those of treadle in this process, and
shows what they print; ``{python}`` runs code and shows what it prints and its last value, as notebooks do.
A code host shows all of them as code. With `:status:` commands must end with that exit status; `:show:` puts
in a picture that they made.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from treadle.cli.main import main


class Session:
    """What the blocks of a page share: a folder, and the names of Python."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def write(self, name: str, text: str) -> None:
        """A file of the page."""
        (self.folder / name).write_text(text + "\n", encoding="utf-8")

    def run(self, line: str, status: int = 0) -> str:
        """What a command prints, both streams; RuntimeError if it ends otherwise than expected."""
        words, printed = shlex.split(line, comments=True), io.StringIO()
        if words[0] == "treadle":
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                found = main(words[1:])
        else:
            program = [sys.executable, *words[1:]] if words[0] == "python" else words
            done = subprocess.run(
                program,
                cwd=self.folder,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            found = done.returncode
            printed.write(done.stdout)
        if found != status:
            raise RuntimeError(f"{line}: exit status {found}, expected {status}\n{printed.getvalue()}")
        return printed.getvalue()

    def python(self, text: str) -> tuple[str, Any]:
        """What code prints, and the value of its last line if that is an expression, else None."""
        tree, value = ast.parse(text), None
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(compile(tree, "<tutorial>", "exec"), self.names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<tutorial>", "eval"), self.names)
        return printed.getvalue(), value


class _Block(Directive):
    """A block of a page, in the page's session."""

    has_content = True
    option_spec: ClassVar = {"status": directives.nonnegative_int, "show": directives.path}

    @property
    def session(self) -> Session:
        """Of this page: a new one where its first block stands."""
        environment = self.state.document.settings.env
        if "treadle_session" not in environment.temp_data:
            room = Path(environment.app.srcdir).parent / "build" / "docs" / "sessions"
            environment.temp_data["treadle_session"] = Session(room / environment.docname.replace("/", "-"))
        return environment.temp_data["treadle_session"]

    @property
    def text(self) -> str:
        """Its lines."""
        return "\n".join(self.content)

    def code(self, language: str) -> nodes.literal_block:
        """The block itself."""
        return nodes.literal_block(self.text, self.text, language=language)

    @staticmethod
    def output(text: str) -> list[nodes.Node]:
        """What was printed."""
        text = text.rstrip()
        return [nodes.literal_block(text, text, language="text", classes=["output"])] if text else []


class File(_Block):
    """A file that later blocks read."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Nodes of the page."""
        name = self.arguments[0]
        self.session.write(name, self.text)
        language = {".py": "python", ".toml": "toml"}.get(Path(name).suffix, "text")
        caption = nodes.caption(name, name)
        return [
            nodes.container(
                "", caption, self.code(language), literal_block=True, classes=["literal-block-wrapper"]
            )
        ]


class Run(_Block):
    """Commands, and what they print."""

    def run(self) -> list[nodes.Node]:
        """Nodes of the page."""
        status = self.options.get("status", 0)
        printed = "".join(self.session.run(line, status) for line in self.content if line.strip())
        found = [self.code("sh"), *self.output(printed)]
        if "show" in self.options:
            picture = (self.session.folder / self.options["show"]).read_text(encoding="utf-8")
            found.append(nodes.raw("", f'<div class="value">{picture}</div>', format="html"))
        return found


class Python(_Block):
    """Code, what it prints, and its last value."""

    def run(self) -> list[nodes.Node]:
        """Nodes of the page."""
        printed, value = self.session.python(self.text)
        found = [self.code("python"), *self.output(printed)]
        if value is not None and hasattr(value, "_repr_html_"):
            found.append(nodes.raw("", f'<div class="value">{value._repr_html_()}</div>', format="html"))
        elif value is not None:
            found += self.output(repr(value))
        return found


def setup(app: Sphinx) -> None:
    """Register the directives."""
    for name, directive in (("file", File), ("run", Run), ("python", Python)):
        app.add_directive(name, directive)
    os.environ["COLUMNS"] = "88"
