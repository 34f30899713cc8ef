"""One file per family of attacks, as settings of the PGD loop and of the strongest attack.

Equation numbers are those of *Enhanced Regularizers for Attributional Robustness* ("the paper").
"""
