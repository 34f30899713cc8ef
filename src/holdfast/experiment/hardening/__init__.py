"""Fine-tune a trained network so that its explanations hold, within a limit on the accuracy that this costs.

    audit -> plan -> fine-tuning with a guard of the accuracy -> audit of the same images -> weights and page

`harden.py` is the way through; the other files are its parts.
"""
