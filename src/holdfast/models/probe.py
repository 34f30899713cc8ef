"""A first pass of a few images through a network that may not fit them, with a diagnosis in one sentence."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.engine.modes import evaluating
from holdfast.errors import HoldfastError, expected, reason
from holdfast.models.classifier import Classifier, NormalisationError, OutputError

SIDES = (8, 16, 28, 32, 48, 64, 96, 112, 128, 160, 192, 224, 256, 299, 384)
"""Sides of images that are tried, smallest first, to say which ones a network accepts."""

PROBABILITY_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What the first pass shows: the logits, the channels that the network takes, and notes about its output."""

    logits: Tensor
    channels: int
    notes: tuple[str, ...] = ()


def probe_network(model: Classifier, x: Tensor) -> Probe:
    """Pass images [B, C, H, W] through the network, as grey images repeated three times if it needs that.

    Raises an error that names the cause if the network does not take such images or does not return logits.
    """
    tried = _tried(model, x)
    if isinstance(tried, Tensor):
        return Probe(logits=tried, channels=x.shape[1], notes=_output_notes(tried))
    if x.shape[1] == 1 and isinstance(found := _tried(model, x.expand(-1, 3, -1, -1)), Tensor):
        note = "the images are grey and the network takes 3 channels, so each image is repeated in three channels"
        return Probe(logits=found, channels=3, notes=(note, *_output_notes(found)))
    if x.shape[1] == 3 and isinstance(_tried(model, x[:, :1]), Tensor):
        fix = "load the images with transforms='grey'"
        raise expected("images of 1 channel, as the network takes them", got=_shape(x), fix=fix)
    if isinstance(tried, NormalisationError) and x.shape[1] == 3:
        raise tried
    raise expected(f"a network that takes images of {_shape(x)}", got=_why(tried), fix=_other_side(model, x)) from tried


def probe_as_they_are(model: Classifier, x: Tensor) -> Probe:
    """As `probe_network`, but without repeated channels: grey images for a network of three channels are an error."""
    found = probe_network(model, x)
    if found.channels != x.shape[1]:
        fix = "pass transforms='rgb' to load them with three"
        raise expected(f"images of {found.channels} channels, as the network takes them", got=_shape(x), fix=fix)
    return found


def looks_like_probabilities(outputs: Tensor) -> bool:
    """Whether every row [B, K] is non-negative and sums to 1.

    >>> looks_like_probabilities(torch.tensor([[0.2, 0.8]])), looks_like_probabilities(torch.tensor([[2.0, 8.0]]))
    (True, False)
    """
    sums = outputs.sum(1)
    return bool((outputs >= 0).all()) and bool(((sums - 1).abs() <= PROBABILITY_TOLERANCE).all())


def _tried(model: Classifier, x: Tensor) -> Tensor | Exception:
    """The logits, or the exception of a network that does not take the images; a bad output is raised."""
    try:
        with evaluating(model), torch.no_grad():
            logits: Tensor = model(x)
            return logits
    except OutputError:
        raise
    except Exception as error:
        return error


def _output_notes(logits: Tensor) -> tuple[str, ...]:
    if not looks_like_probabilities(logits):
        return ()
    return (
        "the network returns probabilities (each row sums to 1), whose gradients vanish where it is confident; "
        "return the logits, without the last softmax, for maps of the logits",
    )


def _other_side(model: Classifier, x: Tensor) -> str:
    """What to do: the smallest side at which the network takes the images, if there is one."""
    for side, image in _resized(x[:1]):
        if isinstance(_tried(model, image), Tensor):
            channels = "" if image.shape[1] == x.shape[1] else " and transforms='rgb'"
            return f"it takes images of {side} x {side}: pass size={side}{channels}"
    return "check the size and the channels of the images"


def _resized(x: Tensor) -> Iterator[tuple[int, Tensor]]:
    sides = [side for side in SIDES if x.shape[2:] != (side, side)]
    for side in sides:
        image = F.interpolate(x, size=(side, side), mode="bilinear")
        yield side, image
        if x.shape[1] == 1:
            yield side, image.expand(-1, 3, -1, -1)


def _why(error: Exception) -> str:
    return str(error).rstrip(".") if isinstance(error, HoldfastError) else f"{type(error).__name__}: {reason(error)}"


def _shape(x: Tensor) -> str:
    channels, height, width = x.shape[1:]
    return f"{channels} channel{'s' if channels > 1 else ''}, {height} x {width}"
