"""Exact privacy curves, and the functions that answer one question about a run or plan one.

The public names are exported by `hockeystick` itself.
"""
