"""Names of the attacks that tables and reports treat specially."""

REFERENCE = "ifia-topk"
"""The attack of the papers, on the map of the true logit; its results are shown beside the published ones."""

STRONGEST = "strongest"
"""The strongest attack, on the map of the centred logit; it decides comparisons if every run has it."""

TRUE_LOGIT = "strongest-true-logit"
"""The strongest attack on the map of the true logit."""

ENSEMBLE = "ifia-ensemble"
"""The ensemble of eight IFIA attacks of version 0.1."""

UNIVERSAL = "universal"
"""One perturbation for all images, found on training images, on the map of the centred logit."""

CONTROL = "random"
"""Random noise of the same size: how much maps change without an attack."""

DECISIVE = (STRONGEST, ENSEMBLE)
"""The attacks that decide comparisons, the first that every run has."""

HEADLINES = (REFERENCE, STRONGEST, TRUE_LOGIT, UNIVERSAL, ENSEMBLE)
