"""How passes through a network are computed: gradients, chunks, threads, CPU kernels, pass counts, input checks.

Nothing here knows what an explanation is.
"""
