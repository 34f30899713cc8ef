"""The checksum of a network, which tells whether stored results belong to it."""

import hashlib

import torch
from torch import nn

from holdfast.types import Model


def network_checksum(model: Model) -> str:
    """SHA-256 of all weights and buffers; the name for a plain function, which has no weights."""
    if not isinstance(model, nn.Module):
        return getattr(model, "__name__", type(model).__name__)
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
