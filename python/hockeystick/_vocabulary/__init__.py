"""The nouns of a run: mechanisms, sampling schemes, groups, adjacency, steps, intervals and supported pairs.

All other modules use them; `hockeystick` itself exports their public names.
"""
