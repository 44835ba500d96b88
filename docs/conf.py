"""The documentation site: `make docs` builds it into build/site from these pages and the docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "site"))

from treadle._version import __version__  # noqa: E402

project = "Treadle"
author = "The Treadle developers"
copyright = "the Treadle developers, Apache-2.0"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "myst_parser",
    "treadle_site",
]
exclude_patterns = ["site", "images"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
suppress_warnings = ["myst.strikethrough"]

# the pages read on a code host too: links are paths of files, anchors those of a code host
myst_heading_anchors = 4
myst_links_external_new_tab = False

# docstrings are numpydoc's; types stand in them as words
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = False
napoleon_custom_sections = [("Source", "notes")]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = False
add_module_names = False
default_role = "literal"
smartquotes = False  # options begin with two hyphens
toc_object_entries = False
python_display_short_literal_types = True

nitpicky = True
# the standard library and what we depend on have pages elsewhere, which nothing here asks for
nitpick_ignore_regex = [("py:.*", r"(?!treadle\b).*")]

html_theme = "furo"
html_title = f"Treadle {__version__}"
html_static_path = ["site/static"]
html_css_files = ["treadle.css"]
html_search_scorer = str(HERE / "site/search_scorer.js")  # what explains comes first
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse for file://
html_use_index = True
html_domain_indices = False
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7db8f7", "color-brand-content": "#7db8f7"},
}
