"""Simple reference implementations with plain autograd and without optimisations, as benchmark baselines."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.engine.modes import plain_kernels
from holdfast.models.surrogate import softplus_surrogate


def path_map(net: nn.Module, image: Tensor, label: int, points: int, *, graph: bool = False) -> Tensor:
    """|IG| of the logit for one image [1, C, H, W], all path points in one batch, scaled to a sum of H W."""
    t = torch.arange(1, points + 1, dtype=image.dtype).reshape(-1, 1, 1, 1) / points
    path = t * image
    if not path.requires_grad:
        path = path.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(net(path)[:, label].sum(), path, create_graph=graph)
    amount = (image * gradient.mean(0, keepdim=True)).abs().sum(1).flatten()
    return amount / amount.sum() * amount.numel()


def ifia_one_by_one(
    net: nn.Module, x: Tensor, y: Tensor, *, eps: float, step_size: float, steps: int, k: int, points: int
) -> Tensor:
    """The top-k attack, one image at a time; returns the iterate of smallest tau among those that keep the label."""
    return torch.cat([_ifia(net, x[i : i + 1], int(y[i]), eps, step_size, steps, k, points) for i in range(len(x))])


def _ifia(
    net: nn.Module, image: Tensor, label: int, eps: float, step_size: float, steps: int, k: int, points: int
) -> Tensor:
    from scipy.stats import kendalltau  # from the `dev` extra

    clean = path_map(net, image, label, points).detach()
    top = torch.zeros_like(clean).index_fill(0, clean.argsort(descending=True, stable=True)[:k], 1.0)
    current, kept, smallest = image.clone(), image, 1.0
    for _ in range(steps):
        moving = current.detach().requires_grad_()
        with plain_kernels(), softplus_surrogate(1.0):
            mass = (path_map(net, moving, label, points, graph=True) * top).sum()
        (gradient,) = torch.autograd.grad(mass, moving)
        current = (current - step_size * gradient.sign()).clamp(image - eps, image + eps).clamp(0, 1)
        shown = path_map(net, current, label, points).detach()
        tau = float(kendalltau(clean.numpy(), shown.numpy()).statistic)
        if int(net(current).argmax()) == label and tau < smallest:
            kept, smallest = current, tau
    return kept


def erar_search(
    net: nn.Module, x: Tensor, y: Tensor, start: Tensor, *, eps: float, step_size: float, steps: int, points: int
) -> Tensor:
    """Ascend CE(x') + |IG(x, x')|_1 of the loss in x' (Eq. 12), as a straightforward eager implementation."""
    t = (torch.arange(1, points + 1, dtype=x.dtype) / points).reshape(-1, 1, 1, 1, 1)
    x_adv = start
    for _ in range(steps):
        x_adv = x_adv.detach().requires_grad_()
        path = (x + t * (x_adv - x)).flatten(0, 1)
        loss = F.cross_entropy(net(path), y.repeat(points), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, path, create_graph=True)
        change = (x_adv - x) * gradient.unflatten(0, (points, -1)).mean(0)
        total = F.cross_entropy(net(x_adv), y, reduction="sum") + change.abs().sum()
        (ascent,) = torch.autograd.grad(total, x_adv)
        x_adv = (x_adv + step_size * ascent.sign()).clamp(x - eps, x + eps).clamp(0, 1)
    return x_adv.detach()


def pgd(net: nn.Module, x: Tensor, y: Tensor, *, eps: float, step_size: float, steps: int) -> Tensor:
    """PGD on the cross-entropy from the clean image, as a user would write it."""
    net.requires_grad_(False)
    x_adv = x
    for _ in range(steps):
        x_adv = x_adv.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(net(x_adv), y, reduction="sum"), x_adv)
        x_adv = (x_adv + step_size * gradient.sign()).clamp(x - eps, x + eps).clamp(0, 1)
    return x_adv.detach()


def map_gradient(net: nn.Module, x: Tensor, y: Tensor, clean: Tensor, *, beta: float) -> Tensor:
    """The gradient in the image of 1 - cos between |x * gradient| on the softplus surrogate and the clean map."""
    net.requires_grad_(False)
    x = x.detach().requires_grad_()
    with plain_kernels(), softplus_surrogate(beta):
        (gradient,) = torch.autograd.grad(net(x).gather(1, y[:, None]).sum(), x, create_graph=True)
    amount = (x * gradient).abs().sum(1)
    distance = 1 - torch.cosine_similarity(amount.flatten(1), clean.flatten(1), dim=1)
    return torch.autograd.grad(distance.sum(), x)[0]


def audit_one_by_one(net: nn.Module, x: Tensor, y: Tensor, *, eps: float, steps: int, k: int, points: int) -> Tensor:
    """The audit that a user would put together from captum and SciPy, one image at a time; [B, 2].

    For each image, whether PGD changes the prediction, and the smallest Kendall's tau that the top-k attack finds with
    `steps` steps while the label is kept. The maps that are compared are captum's.
    """
    from captum.attr import IntegratedGradients
    from scipy.stats import kendalltau  # both from the `dev` extra

    explain = IntegratedGradients(net)

    def shown(image: Tensor, label: int) -> Tensor:
        found: Tensor = explain.attribute(image, target=label, n_steps=points, method="riemann_right")
        return found.abs().sum(1).flatten().detach()

    rows = []
    for image, label in zip(x.split(1), y.tolist(), strict=True):
        broken = pgd(net, image, y.new_tensor([label]), eps=eps, step_size=eps / 4, steps=steps)
        clean = shown(image, label)
        top = torch.zeros_like(clean).index_fill(0, clean.argsort(descending=True, stable=True)[:k], 1.0)
        current, smallest = image.clone(), 1.0
        for _ in range(steps):
            moving = current.detach().requires_grad_()
            with plain_kernels(), softplus_surrogate(1.0):
                mass = (path_map(net, moving, label, points, graph=True) * top).sum()
            (gradient,) = torch.autograd.grad(mass, moving)
            current = (current - 2.5 * eps / steps * gradient.sign()).clamp(image - eps, image + eps).clamp(0, 1)
            tau = float(kendalltau(clean.numpy(), shown(current, label).numpy()).statistic)
            if int(net(current).argmax()) == label:
                smallest = min(smallest, tau)
        rows.append([float(int(net(broken).argmax()) != label), smallest])
    return torch.tensor(rows)


def passes_of_audit(images: int, *, steps: int, points: int) -> int:
    """Example-passes of `audit_one_by_one`: PGD, the maps of captum, the gradients of the search, and the labels."""
    return images * ((2 * steps + 1) + 2 * points * (1 + steps) + 4 * points * steps + steps)
