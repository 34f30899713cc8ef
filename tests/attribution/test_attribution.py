"""Every map: closed forms, second derivatives, chunking, several targets, completeness, the shortcut."""

from collections.abc import Callable

import pytest
import torch
from tests.nets import AttentionNet, AwkwardReLUs, BatchNormNet, LinearSoftmax, Quadratic
from torch import Tensor

import holdfast as hf
from holdfast.attribution import RULES
from holdfast.errors import InputError

Y = torch.tensor([0, 2, 1])
X = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(1))
MAPS: dict[str, Callable[..., object]] = {
    "gradient": hf.Gradient,
    "input-x-gradient": hf.InputXGradient,
    "smoothgrad": lambda **o: hf.SmoothGrad(samples=5, **o),
    "ig": lambda **o: hf.IntegratedGradients(steps=5, **o),
}


def linear(x: Tensor = X) -> LinearSoftmax:
    torch.manual_seed(3)
    return LinearSoftmax(x[0].numel()).to(x.dtype)


def test_linear_logit_has_closed_forms() -> None:
    model = linear()
    w = model.layer.weight[Y].reshape(X.shape).detach()
    torch.testing.assert_close(hf.Gradient()(model, X, Y), w)
    torch.testing.assert_close(hf.SmoothGrad(samples=3)(model, X, Y), w)
    torch.testing.assert_close(hf.InputXGradient()(model, X, Y), w * X)
    torch.testing.assert_close(hf.IntegratedGradients(steps=3)(model, X, Y), w * X)
    half = hf.IntegratedGradients(steps=3, baseline=0.5)(model, X, Y)
    torch.testing.assert_close(half, w * (X - 0.5))


def test_quadratic_logit_by_hand() -> None:
    # logit = 3 a^2 + 5 b^2 at (2, 1); right rule, 2 points 1/2 and 1: mean gradient (3, 5) * 2 * (2, 1) * 3/4
    model = Quadratic(torch.tensor([[3.0, 5.0]]))
    x = torch.tensor([[[[2.0, 1.0]]]])
    y = torch.tensor([0])
    ig = hf.IntegratedGradients(steps=2)
    assert ig(model, x, y).flatten().tolist() == pytest.approx([2 * 9, 1 * 7.5])
    assert ig.completeness_gap(model, x, y).item() == pytest.approx(18 + 7.5 - (12 + 5))
    # the midpoint rule integrates a linear gradient exactly
    assert hf.IntegratedGradients(steps=2, rule="midpoint")(model, x, y).flatten().tolist() == pytest.approx([12, 5])


def test_path_between_two_images_by_hand() -> None:
    # from (1, 0) to (2, 1), right rule, 2 points: (1.5, .5) and (2, 1), gradient 2 w p, mean (3.5, 1.5) * w
    model = Quadratic(torch.tensor([[3.0, 5.0]]))
    x, x_adv = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[2.0, 1.0]]]])
    change = hf.IntegratedGradients(steps=2).between(model, x, x_adv, torch.tensor([0]))
    assert change.flatten().tolist() == pytest.approx([3.5 * 3, 1.5 * 5])


@pytest.mark.parametrize("score", [hf.true_logit, hf.true_probability, hf.true_loss, hf.ClassLogit(1)])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("build", [AwkwardReLUs, BatchNormNet, AttentionNet])
def test_second_derivatives_pass_gradcheck(build: Callable, name: str, score: hf.types.Score) -> None:
    model = build().double().eval().requires_grad_(False)
    attribution = MAPS[name](score=score)
    x = X[:2].double().requires_grad_()
    with hf.softplus_surrogate(beta=2.0):
        assert torch.autograd.gradcheck(lambda x: attribution(model, x, Y[:2], create_graph=True), x, fast_mode=True)


@pytest.mark.parametrize("name", MAPS)
def test_parameters_get_exact_gradients_through_the_map(name: str) -> None:
    model = AwkwardReLUs().double()
    attribution = MAPS[name](score=hf.true_probability)
    names = [n for n, _ in model.named_parameters()]

    def through(*values: Tensor) -> Tensor:
        call = lambda x: torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,))  # noqa: E731
        return attribution(call, X[:2].double(), Y[:2], create_graph=True)

    with hf.softplus_surrogate(beta=2.0):
        assert torch.autograd.gradcheck(through, tuple(model.parameters()), fast_mode=True)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_chunking_changes_nothing(name: str, create_graph: bool) -> None:
    model = AwkwardReLUs().double()
    whole = MAPS[name](chunk=1000)(model, X.double(), Y, create_graph=create_graph)
    for chunk in (1, 2, 3, 7):
        parts = MAPS[name](chunk=chunk)(model, X.double(), Y, create_graph=create_graph)
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", MAPS)
def test_batch_equals_one_at_a_time(name: str) -> None:
    model = AwkwardReLUs().double()
    alone = torch.cat([MAPS[name]()(model, X[i : i + 1].double(), Y[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(MAPS[name]()(model, X.double(), Y), alone, rtol=1e-12, atol=1e-14)


def test_several_targets_share_the_forward_passes() -> None:
    model = AwkwardReLUs()
    images = 0

    def counting(x: Tensor) -> Tensor:
        nonlocal images
        images += len(x)
        return model(x)

    ig = hf.IntegratedGradients(steps=5, shortcut=False)
    targets = [(hf.true_probability, Y), (hf.true_probability, (Y + 1) % 3), (hf.true_loss, Y)]
    together = ig.maps(counting, X, targets).maps
    assert images == 5 * len(X)
    for (score, y), ours in zip(targets, together, strict=True):
        alone = hf.IntegratedGradients(steps=5, score=score, shortcut=False)(model, X, y)
        torch.testing.assert_close(ours, alone)


def test_completeness_gap_falls_with_steps() -> None:
    model = hf.models.build("paper-cnn", num_classes=10, seed=0)
    x, y = torch.rand(4, 1, 28, 28), torch.arange(4)
    gaps = [float(hf.IntegratedGradients(steps=m).completeness_gap(model, x, y).abs().mean()) for m in (2, 8, 32, 128)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < gaps[0] / 20


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_converges_to_the_same_map(rule: str) -> None:
    model = AwkwardReLUs().double()
    exact = hf.IntegratedGradients(steps=2000, rule="midpoint")(model, X.double(), Y)
    close = hf.IntegratedGradients(steps=300, rule=rule)(model, X.double(), Y)
    torch.testing.assert_close(close, exact, rtol=0, atol=2e-2 * float(exact.abs().max()))


def test_leaves_the_world_as_found() -> None:
    model = BatchNormNet().train()
    x = X.clone()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    with torch.no_grad():  # the caller's mode must not matter
        result = hf.IntegratedGradients(steps=3)(model, x, Y)
    assert not result.requires_grad
    assert torch.equal(x, X)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_empty_batch() -> None:
    empty = hf.IntegratedGradients(steps=3)(linear(), X[:0], Y[:0])
    assert empty.shape == X[:0].shape


def test_a_model_without_logits_is_refused() -> None:
    with pytest.raises(InputError, match="a model that returns logits"):
        hf.Gradient()(lambda x: (x, x), X, Y)
    with pytest.raises(InputError, match=r"logits \[3, K\]"):
        hf.Gradient()(lambda x: x, X, Y)


@pytest.mark.parametrize("settings", [{"samples": 0}, {"sigma": -1.0}])
def test_bad_smoothgrad_settings(settings: dict) -> None:
    with pytest.raises(InputError, match="expected"):
        hf.SmoothGrad(**settings)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda x: x.numpy(), r"expected a tensor of images, got ndarray; .* torch\.as_tensor"),
        (lambda x: x.double(), r"images in float32, .* got float64; pass x\.float\(\)"),
        (lambda x: 255 * x, "divide them by 255"),
    ],
)
def test_images_that_maps_do_not_take(convert, message: str) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    with pytest.raises(hf.InputError, match=message):
        hf.IntegratedGradients(steps=2)(net, convert(torch.ones(2, 1, 4, 4)), torch.tensor([0, 1]))
