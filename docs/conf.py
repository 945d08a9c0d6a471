import hockeystick

project = "hockeystick"
author = "The hockeystick authors"
version = release = hockeystick.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"hockeystick {release}"

# The classes that inherit from one of theirs are documented without them.
autodoc_mock_imports = ["dp_accounting", "opacus"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings state the types
autodoc_inherit_docstrings = True
napoleon_google_docstring = False
napoleon_use_rtype = False
# A word in a docstring's type, such as the group_size of "shape (group_size,)", refers to no property.
suppress_warnings = ["ref.python"]
