"""Features of a layer: captured during a forward pass, read as a grid of positions, with the gradient of a score."""

import difflib
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.engine.cpu_kernels import fast_kernels_for
from holdfast.engine.gradients import check_logits, count_gradients, gradient_of, images_per_pass
from holdfast.engine.parallel import map_chunks
from holdfast.engine.second_order import second_order
from holdfast.errors import expected
from holdfast.types import Model, Target

Fold = Callable[[Tensor, Tensor], Tensor]
"""`(features, gradient) -> map`: two grids [B, C, h, w] to what is kept of them, [B, ...]."""

_HOOKS_LOCK = threading.Lock()  # PyTorch numbers hooks without one


def folded_features(
    model: Model,
    x: Tensor,
    targets: Sequence[Target],
    layer: str,
    fold: Fold,
    *,
    create_graph: bool,
    chunk: int | None = None,
) -> tuple[list[Tensor], Tensor]:
    """`fold` of the features A of `layer` and of ds/dA for each target, and the logits; computed in chunks.

    With `create_graph` the results are differentiable with respect to x and the weights.
    """
    module = find_layer(model, layer)

    def of_rows(rows: slice) -> tuple[list[Tensor], Tensor]:
        with torch.enable_grad():
            points = x[rows] if create_graph else x[rows].detach()
            points = points + torch.zeros_like(points).requires_grad_()  # features have a graph even if x has none
            with captured([module]) as found, fast_kernels_for(model, points, weights=create_graph, twice=create_graph):
                logits = check_logits(model(points), points)
            count_gradients(points.shape[0], len(targets), create_graph)
            features = _reached(found.get(module), layer)
            scores = [score(logits, y[rows]).sum() for score, y in targets]
            gradients = [
                gradient_of(s, features, create_graph, keep=create_graph or i + 1 < len(scores))
                for i, s in enumerate(scores)
            ]
            here = features if create_graph else features.detach()
            maps = [fold(_grid(here, x, layer), _grid(gradient, x, layer)) for gradient in gradients]
            return maps, logits if create_graph else logits.detach()

    with second_order(create_graph):  # once for all threads: the setting is process-wide
        parts = map_chunks(model, x, x.shape[0], chunk or images_per_pass(x), of_rows)
    maps, ends = zip(*parts, strict=True)
    return [torch.cat(pieces) for pieces in zip(*maps, strict=True)], torch.cat(ends)


@contextmanager
def captured(layers: Iterable[nn.Module]) -> Iterator[dict[nn.Module, Tensor]]:
    """The outputs of `layers` in the forward passes inside the block, in the order in which the layers finished.

    Of a layer that is called several times the last output is kept, of an output of several tensors the first. Only
    passes of the calling thread are seen, and the hooks are removed at the end of the block.

    >>> net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten())
    >>> with captured([net[0]]) as found:
    ...     logits = net(torch.ones(1, 1, 3, 3))
    >>> found[net[0]].shape
    torch.Size([1, 2, 3, 3])
    """
    found: dict[nn.Module, Tensor] = {}
    caller = threading.get_ident()

    def keep(module: nn.Module, _: Any, output: Any) -> None:
        tensor = _first_tensor(output)
        if threading.get_ident() == caller and tensor is not None:
            found.pop(module, None)
            found[module] = tensor

    with ExitStack() as hooks:
        for layer in layers:
            with _HOOKS_LOCK:
                handle = layer.register_forward_hook(keep)
            hooks.callback(handle.remove)
        yield found


def find_layer(model: Model, name: str) -> nn.Module:
    """The module of a network with this name; the end of a name is enough if no other module shares it.

    >>> from holdfast.models import build
    >>> find_layer(build("digits-cnn"), "features.3")
    Conv2d(16, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """
    modules = named_layers(model)
    found = [known for known in modules if known == name] or [k for k in modules if k.endswith(f".{name}")]
    if len(found) == 1:
        return modules[found[0]]
    nearest = difflib.get_close_matches(name, modules, n=3, cutoff=0.0)
    fix = f"the nearest names are {', '.join(nearest)}"
    raise expected("layer to be the name of one module of the network", got=repr(name), fix=fix)


def named_layers(model: Model) -> dict[str, nn.Module]:
    """Name -> module of all modules inside a network."""
    if not isinstance(model, nn.Module):
        fix = "the features of a plain function cannot be captured"
        raise expected("a torch.nn.Module", got=type(model).__name__, fix=fix)
    return {name: module for name, module in model.named_modules(remove_duplicate=False) if name}


def as_grid(features: Tensor, height: int, width: int) -> Tensor | None:
    """Features of a layer as [B, C, h, w], h w > 1, for images [height, width]; None if they have no such form.

    Features are [B, C, h, w], [B, h, w, C], or a sequence of tokens [B, N, C] with one token per patch, row by row.
    Tokens before the patches, such as the class token, are left out.

    >>> as_grid(torch.rand(2, 1 + 4 * 4, 8), 32, 32).shape
    torch.Size([2, 8, 4, 4])
    """
    if features.dim() == 3:
        rows, columns = _patches(features.shape[1], height, width)
        grid = features[:, features.shape[1] - rows * columns :].unflatten(1, (rows, columns)).permute(0, 3, 1, 2)
    elif features.dim() == 4:
        first, middle, last = features.shape[1:]
        channels_last = middle * width != last * height and first * width == middle * height
        grid = features.permute(0, 3, 1, 2) if channels_last else features
    else:
        return None
    return grid if features.is_floating_point() and grid.shape[2] * grid.shape[3] > 1 else None


def _patches(tokens: int, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the patches among `tokens`, in the proportions of the image; (0, 0) if there are none.

    At most a third of the tokens may be other tokens.
    """
    shared = math.gcd(height, width)
    rows, columns = height // shared, width // shared
    scale = math.isqrt(tokens // (rows * columns))
    found = rows * scale, columns * scale
    return found if 3 * found[0] * found[1] >= 2 * tokens else (0, 0)


def _grid(features: Tensor, x: Tensor, layer: str) -> Tensor:
    found = as_grid(features, *x.shape[2:])
    if found is None:
        fix = "choose a layer whose output has one entry for each position or patch"
        raise expected(f"spatial features from the layer {layer!r}", got=f"shape {list(features.shape)}", fix=fix)
    return found


def _reached(features: Tensor | None, layer: str) -> Tensor:
    if features is None or not features.requires_grad:
        got = "no output" if features is None else "an output that does not depend on the image"
        raise expected(f"the layer {layer!r} to be part of the forward pass", got=got)
    return features


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    parts = output.values() if hasattr(output, "values") else output if isinstance(output, tuple | list) else ()
    return next((part for part in parts if isinstance(part, Tensor)), None)
