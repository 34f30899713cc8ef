"""Names of the attacks that tables and reports treat specially."""

REFERENCE = "ifia-topk"
"""The attack of the papers; its results are shown beside the published ones."""

STRONGEST = "ifia-ensemble"
"""The ensemble of attacks; comparisons use it if every run has it."""

CONTROL = "random"
"""Random noise of the same size: how much maps change without an attack."""

HEADLINES = (REFERENCE, STRONGEST)
