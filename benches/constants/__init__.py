"""What becomes of the answers when a named constant of the core has twice its value."""
