"""Benchmarks from the Python side: ``python -m benches.compare`` runs them all.

Each prints ratios taken in one run on one machine. None asserts anything about wall-clock time.
"""
