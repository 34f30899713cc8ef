"""Initialisers of the published TensorFlow code that are not a single call in PyTorch."""

import math

from torch import Tensor, nn


def truncated_normal_(weight: Tensor, std: float) -> Tensor:
    """Fill with samples of N(0, std^2), redrawn outside two standard deviations, as `tf.truncated_normal` does.

    The truncation shrinks the standard deviation of the result to about 0.88 std.
    """
    return nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


def he_normal_(weight: Tensor) -> Tensor:
    """Fill a [out, in, h, w] kernel with N(0, 2 / (h w out)): He et al. 2015 (arXiv:1502.01852), fan-out form."""
    return nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")


def uniform_unit_scaling_(weight: Tensor) -> Tensor:
    """Fill a [out, in] matrix with U(-sqrt(3 / in), sqrt(3 / in)): unit output variance for unit inputs.

    `tf.uniform_unit_scaling_initializer(factor=1.0)`; Sussillo and Abbott 2014 (arXiv:1412.6558).
    """
    bound = math.sqrt(3 / weight.shape[1])
    return nn.init.uniform_(weight, -bound, bound)
