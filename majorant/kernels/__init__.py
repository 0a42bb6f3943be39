"""Pure functions on arrays. They see scores, never parameters or data.

Scores are *class-major*: ``scores[y, j]`` is the log-potential ``log h_j(y) + θᵀf_j(y)`` of outcome
``y`` in row ``j``, so that a sweep over rows is contiguous in memory.
"""
