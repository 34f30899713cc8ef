"""Finds the last layer with spatial features through which all information of the image passes."""

import threading
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge

from holdfast import rng
from holdfast.engine.features import as_grid, captured, named_layers
from holdfast.engine.gradients import check_logits, gradient_of
from holdfast.engine.modes import evaluating
from holdfast.errors import expected
from holdfast.models.surrogate import softplus_surrogate
from holdfast.types import Model

_KNOWN: WeakKeyDictionary[nn.Module, dict[torch.Size, str]] = WeakKeyDictionary()
_LOCK = threading.Lock()  # one thread switches the network to evaluation mode and back


def last_spatial_layer(model: Model, x: Tensor) -> str:
    """The name of the last layer that has spatial features on which the logits depend, and that nothing bypasses.

    In a CNN this is the last convolution, pooling or block before the features are flattened or averaged. A branch next
    to a skip connection does not count. In a transformer that classifies by its class token, the patches after the last
    block have no influence, so it is the block before. Each network is examined once, with one random image.

    >>> from holdfast.models import build
    >>> last_spatial_layer(build("digits-cnn"), torch.rand(1, 1, 8, 8))
    'features'
    """
    layers, shape = named_layers(model), x.shape[1:]
    assert isinstance(model, nn.Module)
    with _LOCK:
        known = _KNOWN.setdefault(model, {})
        if known.get(shape) in layers:
            return known[shape]
        name, certain = _examine(model, layers, x)
        if certain:
            known[shape] = name
        return name


def _examine(model: nn.Module, layers: dict[str, nn.Module], x: Tensor) -> tuple[str, bool]:
    """The name, and whether the logits depend on these features with the present weights.

    If the logits depend on no features, as in a network whose last layer starts at zero, it is the last spatial layer.
    """
    key = torch.zeros(1, dtype=torch.int64, device=x.device)
    # on the surrogate, so that no ReLU hides a dependence
    with evaluating(model), torch.enable_grad(), softplus_surrogate():
        image = rng.uniform(key, x[:1].detach()).requires_grad_()
        with captured(layers.values()) as outputs:
            logits = check_logits(model(image), image)
        score = (logits * rng.uniform(key, logits.detach())).sum()
        gradient_of(score, image, create_graph=False, keep=True)  # raises if the network detaches its input
        spatial = {layer: features for layer, features in outputs.items() if _is_spatial(features, x)}
        last = None
        for layer, features in reversed(spatial.items()):
            if not _is_bypassed(features, image, score):
                last = layer if last is None else last
                if _has_influence(features, score, x):
                    return _name(layer, layers), True
    if last is not None:
        return _name(last, layers), False
    names = [_name(layer, layers) for layer in spatial]
    raise expected(
        "a network with a layer of spatial features that nothing bypasses",
        got=type(model).__name__,
        fix=f"name the layer to use, one of {', '.join(names)}" if names else "use another map",
    )


def _name(layer: nn.Module, layers: dict[str, nn.Module]) -> str:
    return next(name for name, module in layers.items() if module is layer)


def _is_spatial(features: Tensor, x: Tensor) -> bool:
    return features.requires_grad and as_grid(features, *x.shape[2:]) is not None


def _is_bypassed(features: Tensor, image: Tensor, score: Tensor) -> bool:
    """Whether the graph of the score has a path to the image that does not go through the features."""
    stop, goal = _edge(features), _edge(image)
    edges, seen = [_edge(score)], set[Node]()
    while edges:
        edge = node, _ = edges.pop()
        if edge == stop or node in seen:
            continue
        if edge == goal:
            return True
        seen.add(node)
        edges += [(parent, number) for parent, number in node.next_functions if parent is not None]
    return False


def _edge(tensor: Tensor) -> tuple[Node, int]:
    """Where a tensor stands in the graph: the node that computed it, and the number of its output."""
    edge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def _has_influence(features: Tensor, score: Tensor, x: Tensor) -> bool:
    (gradient,) = torch.autograd.grad(score, features, retain_graph=True, allow_unused=True)
    grid = None if gradient is None else as_grid(gradient, *x.shape[2:])
    return grid is not None and bool(grid.any())
