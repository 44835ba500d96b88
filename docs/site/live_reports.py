"""The directive ``{live-report} NAME``: its lines are commands that end in a report, which the site links.

A code host shows the commands. They run while the site is built, in this process, in build/docs/reports/NAME;
they run again when they or the package's sources change.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shlex
import shutil
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from treadle.cli.main import main

MOST_BYTES = 800_000
"""Of a page."""


def _package_stamp() -> str:
    """Of the package's sources, by names, sizes and times of change."""
    import treadle

    root = Path(treadle.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        found.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def made(name: str, commands: list[str], room: Path, stamp: str) -> Path:
    """The report's file, made by the commands unless they made it before."""
    folder, page = room / name, room / name / f"{name}.html"
    mark = folder / "made-by"
    wanted = "\n".join([stamp, *commands])
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted and page.exists():
        return page
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        for command in commands:
            words = shlex.split(command)
            if words[0] != "treadle" or main(words[1:]) != 0:
                raise RuntimeError(f"live-report {name}: {command}: {printed.getvalue()}")
    size = page.stat().st_size
    if size > MOST_BYTES:
        raise RuntimeError(f"live-report {name}: {size} bytes, at most {MOST_BYTES} are allowed")
    mark.write_text(wanted, encoding="utf-8")
    return page


class LiveReport(Directive):
    """The commands as code, and a link to what they made."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Nodes of the page."""
        environment = self.state.document.settings.env
        name, commands = self.arguments[0], [line for line in self.content if line.strip()]
        room = Path(environment.app.srcdir).parent / "build" / "docs" / "reports"
        page = made(name, commands, room, environment.app.config.treadle_stamp)
        kilobytes = round(page.stat().st_size / 1000)
        up = "../" * environment.docname.count("/")
        anchor = f'<a href="{up}reports/{name}.html">Open the live report</a>'
        link = f'<p class="live-report">{anchor} ({kilobytes} KB)</p>'
        code = nodes.literal_block("\n".join(commands), "\n".join(commands), language="sh")
        return [code, nodes.raw("", link, format="html")]


def _copy(app: Sphinx, error: Exception | None) -> None:
    """Put all reports into the site."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "reports"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for page in (Path(app.srcdir).parent / "build" / "docs" / "reports").glob("*/*.html"):
            if page.stem == page.parent.name:
                shutil.copy(page, target / page.name)


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_config_value("treadle_stamp", _package_stamp(), "env")
    app.add_directive("live-report", LiveReport)
    app.connect("build-finished", _copy)
