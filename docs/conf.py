"""The site: `make docs`. Warnings are errors, examples are run, and nothing is fetched from elsewhere."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

import majorant  # noqa: E402

project = "majorant"
author = "The majorant developers"
project_copyright = author
version = release = majorant.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "argument_names",
    "blocks",
    "majorization_data",
    "mathml",
    "members",
]

exclude_patterns = ["_build", "_ext", "reproduction/results", "**/README.md", "sg_execution_times.rst"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]
default_role = "code"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc says them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]plot_",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 10,
    "abort_on_example_error": True,
    "capture_repr": (),
    "reset_modules": ("matplotlib",),
    "thumbnail_size": (480, 320),
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "majorant"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "majorant"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
ALONE = (
    "index",
    "install",
    "quickstart",
    "why",
    "solvers",
    "glossary",
    "benchmarks",
    "extending",
    "changelog",
    "cite",
    "gallery/*",
)
html_sidebars = {page: [] for page in ALONE}
