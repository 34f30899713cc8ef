"""Passes through a network: gradients, chunks, threads, CPU kernels, pass counts and input checks.

This package does not depend on any explanation method.
"""
