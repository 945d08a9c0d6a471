"""What becomes of the answers when a named constant of the Python package has twice its value."""
