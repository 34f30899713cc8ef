"""Sphinx configuration of the documentation site; `make docs` builds it. The parts are in `_ext/`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import holdfast  # noqa: E402

project = "holdfast"
author = "The holdfast authors"
copyright = "The holdfast authors, MIT licence"  # noqa: A001 - Sphinx's name
release = holdfast.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "mathml", "docstrings", "written", "leaderboard"]
exclude_patterns = ["_ext", "README.md"]
suppress_warnings = ["myst.header"]  # sections of a page may start below its title's level

# Markdown and notebooks: every code cell runs during the build; an error in one fails the build.
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_merge_streams = True

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# The reference: docstrings are escaped by `docstrings`, so any character may stand in them.
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# The page: nothing is loaded from another host.
html_theme = "furo"
html_title = f"holdfast {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("sort.js", {"defer": "defer"})]
html_extra_path = ["../../results/report.html"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2b6cb0", "color-brand-content": "#2b6cb0"},
    "dark_css_variables": {"color-brand-primary": "#7fb3e6", "color-brand-content": "#7fb3e6"},
}
