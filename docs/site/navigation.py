"""The sidebar's tree of pages, made quickly: Sphinx resolves it for every page, a quarter of a build."""

from __future__ import annotations

import html
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def tree(environment: BuildEnvironment, page: str, relative: Any) -> str:
    """Nested lists of all pages below the root, as Sphinx writes them; those above the page are `current`."""
    above = {page}
    parents = {below: one for one, found in environment.toctree_includes.items() for below in found}
    while page in parents and parents[page] not in above:
        page = parents[page]
        above.add(page)

    def level(name: str, depth: int) -> str:
        items = []
        for below in environment.toctree_includes.get(name, ()):
            classes = f"toctree-l{depth}{' current' if below in above else ''}"
            title = html.escape(environment.titles[below].astext())
            link = f'<a class="reference internal" href="{relative(below)}">{title}</a>'
            items.append(f'<li class="{classes}">{link}{level(below, depth + 1)}</li>')
        return f"<ul>{''.join(items)}</ul>" if items else ""

    return level(environment.config.root_doc, 1)


def _context(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    del template, doctree

    def toctree(**options: object) -> str:
        del options
        return tree(app.env, page, lambda name: app.builder.get_relative_uri(page, name))

    context["toctree"] = toctree


def setup(app: Sphinx) -> None:
    """Before the theme asks for the tree."""
    app.connect("html-page-context", _context, priority=100)
