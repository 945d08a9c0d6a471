"""Matrices that correlate the noise of a run, and how far records move what they encode.

Mathematics of lower-triangular matrices alone: nothing here knows of noise or privacy
(docs/theory/correlated-noise.md).
"""
