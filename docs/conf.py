"""How Sphinx builds the site: ``make docs``. Nothing is fetched, neither now nor by a reader."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "extensions"), str(DOCS.parent / "benchmarks")]

import lasn  # noqa: E402
from published import facts  # noqa: E402

project = "LASN"
author = "The LASN developers"
copyright = "2026, The LASN developers"
version = release = lasn.__version__

extensions = [
    "benchmark_results",
    "gallery_texts",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["build", "extensions", "_templates"]
templates_path = ["_templates"]
nitpicky = True
toc_object_entries_show_parents = "hide"
highlight_language = "text"

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 3
myst_substitutions = facts()

autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_use_plots = False

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "plot_gallery": "True",
    "reset_modules": ("gallery_style.apply_style",),
    "capture_repr": (),
    "image_srcset": ["2x"],
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "doc_module": (),
    "write_computation_times": False,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "LASN"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_domain_indices = False
html_theme_options = {
    "logo": {"text": "LASN"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages that have no others below them.
_ALONE = [
    "index",
    "quick_start",
    "performance",
    "faq",
    "migration",
    "contributing",
    "search",
    "genindex",
]
html_sidebars = {page: [] for page in _ALONE}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
