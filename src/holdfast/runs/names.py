"""The attacks that tables and reports treat specially, by name."""

REFERENCE = "ifia-topk"
"""The attack of the papers; its figures stand beside the published ones."""

STRONGEST = "ifia-ensemble"
"""The ensemble, which decides comparisons where every run has it."""

CONTROL = "random"
"""Noise of the same size: how far any map moves without an attack."""

HEADLINES = (REFERENCE, STRONGEST)
