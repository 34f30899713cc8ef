"""Input checks shared by all entry points: images, labels, logits and keys."""

import torch
from torch import Tensor, nn

from holdfast.errors import expected

BYTES = 64
"""A larger pixel is taken for one of 0 to 255: normalised pixels do not get there."""


def check_tensors(**given: object) -> None:
    """Raise for arguments that are not tensors, such as NumPy arrays.

    >>> check_tensors(x=[0.5])
    Traceback (most recent call last):
    holdfast.errors.InputError: expected x to be a tensor, got list; convert it with torch.as_tensor.
    """
    for name, value in given.items():
        if not isinstance(value, Tensor):
            fix = "convert it with torch.as_tensor"
            raise expected(f"{name} to be a tensor", got=type(value).__name__, fix=fix)


def check_images(x: Tensor) -> None:
    """Check that x is a float batch [B, C, H, W] of finite pixels in [0, 1]."""
    if not isinstance(x, Tensor) or x.dim() != 4 or not x.is_floating_point():
        got = f"{x.dtype} of shape {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise expected("float images [B, C, H, W]", got=got, fix="convert bytes with holdfast.data.to_float")
    if not bool(x.isfinite().all()):
        rows = (~x.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
        raise expected("finite pixels", got=f"NaN or infinity in images {rows[:5]}", fix="remove or repair them")
    low, high = (float(x.min()), float(x.max())) if x.numel() else (0.0, 1.0)
    if low < 0 or high > 1:
        raise expected(
            "pixels in [0, 1]",
            got=f"[{low:g}, {high:g}]",
            fix="move the normalisation into holdfast.Classifier(net, mean, std)",
        )


def check_scale(x: Tensor) -> None:
    """Raise for images that are not floats, or whose pixels are so large that they must be bytes from 0 to 255."""
    if not isinstance(x, Tensor):
        raise expected("a tensor of images", got=type(x).__name__, fix="convert it with torch.as_tensor")
    if not x.is_floating_point():
        fix = "convert them with holdfast.data.to_float"
        raise expected("float images with pixels in [0, 1]", got=str(x.dtype), fix=fix)
    if x.numel() and float(x.detach().amax()) > BYTES:
        raise expected("pixels in [0, 1]", got=f"up to {float(x.detach().amax()):g}", fix="divide them by 255")


def check_precision(model: object, x: Tensor) -> None:
    """Raise for images in float64 and a network in float32, as NumPy arrays often lead to."""
    weights = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if weights is not None and x.dtype == torch.float64 and weights.dtype == torch.float32:
        raise expected("images in float32, as the weights of the network", got="float64", fix="pass x.float()")


def check_labels(y: Tensor, batch: int, classes: int | None = None) -> None:
    """Check that y holds int64 labels [B] below the number of classes."""
    if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.shape != (batch,):
        typed = isinstance(y, Tensor) and y.dtype == torch.int64
        got = f"{y.dtype} of shape {list(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        fix = "" if typed else "convert them with torch.as_tensor(y).long()"
        raise expected(f"int64 labels [{batch}], one per image", got=got, fix=fix)
    if classes is not None and batch and not bool(((y >= 0) & (y < classes)).all()):
        got = f"labels from {int(y.min())} to {int(y.max())}"
        raise expected(f"labels from 0 to {classes - 1}, one per output of the model", got=got)


def check_outputs(logits: Tensor) -> None:
    """Check that the logits [B, K] are finite and cover at least two classes, so that they give a prediction."""
    if logits.shape[1] < 2:
        fix = "a network with one output for two classes can return torch.cat([torch.zeros_like(z), z], 1)"
        raise expected("at least two logits, one per class", got=logits.shape[1], fix=fix)
    if not bool(logits.isfinite().all()):
        rows = (~logits.isfinite().all(1)).nonzero().flatten().tolist()
        fix = "check its weights and the normalisation of its input"
        raise expected("finite logits from the network", got=f"NaN or infinity for images {rows[:5]}", fix=fix)


def check_keys(keys: Tensor, batch: int) -> None:
    """Check that there is one int64 key per image."""
    if not isinstance(keys, Tensor) or keys.dtype != torch.int64 or keys.shape != (batch,):
        got = f"{keys.dtype} of shape {list(keys.shape)}" if isinstance(keys, Tensor) else type(keys).__name__
        raise expected(f"int64 keys [{batch}]", got=got, fix="create them with holdfast.make_keys(seed, ids)")


def check_batch(x: Tensor, y: Tensor, keys: Tensor) -> None:
    """Check images, and that there is one label and one key per image."""
    check_images(x)
    check_labels(y, x.shape[0])
    check_keys(keys, x.shape[0])
