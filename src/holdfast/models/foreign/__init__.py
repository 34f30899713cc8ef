"""Networks from elsewhere: a function of the user's, `timm`, `torchvision`, and `transformers` models saved on disk.

`registry.py` finds the source by the part of the name before the colon; each source has one file.
"""
