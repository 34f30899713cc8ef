"""CACR, WACR, RAR's norm, IGR's cosine, ART's triplet and TRADES' divergence, by hand on a linear-softmax network.

The oracle below is plain NumPy: gradients of a softmax of a linear map in closed form, one point after the other.
"""

import math

import numpy as np
import pytest
import torch
from tests.nets import AwkwardReLUs, LinearSoftmax

import holdfast as hf
from holdfast.losses import (
    CACR,
    WACR,
    AlignmentTriplet,
    AttributionCosine,
    CrossEntropy,
    IGNorm,
    PredictionKL,
    kl_uniform,
)

M = 4
W = np.array([[1.0, -2.0, 0.5, 0.3], [0.2, 1.5, -1.0, 0.7], [-0.8, 0.4, 0.9, -1.1]])
BIAS = np.array([0.1, -0.2, 0.05])
X, X_ADV, Y = np.array([0.9, 0.2, 0.6, 0.4]), np.array([0.7, 0.45, 0.5, 0.6]), 0


def probabilities(x: np.ndarray) -> np.ndarray:
    z = np.exp(W @ x + BIAS)
    return z / z.sum()


def slope_of_probability(x: np.ndarray, c: int) -> np.ndarray:
    p = probabilities(x)
    return p[c] * (W[c] - p @ W)


def slope_of_loss(x: np.ndarray, c: int) -> np.ndarray:
    return probabilities(x) @ W - W[c]


def ig(slope, start: np.ndarray, end: np.ndarray, c: int = Y) -> np.ndarray:
    return (end - start) * np.mean([slope(start + k / M * (end - start), c) for k in range(1, M + 1)], axis=0)


ZERO = np.zeros(4)
BASE = ig(slope_of_probability, ZERO, X)
CHANGE = {
    "difference": ig(slope_of_probability, ZERO, X_ADV) - BASE,
    "path": ig(slope_of_probability, X, X_ADV),
    "loss-path": -ig(slope_of_loss, X, X_ADV),
}


@pytest.fixture
def model() -> LinearSoftmax:
    net = LinearSoftmax(4, 3).double()
    with torch.no_grad():
        net.layer.weight[:] = torch.from_numpy(W)
        net.layer.bias[:] = torch.from_numpy(BIAS)
    return net


def pair() -> hf.Pair:
    x, x_adv = (torch.from_numpy(v).reshape(1, 1, 2, 2) for v in (X, X_ADV))
    return hf.Pair(x, x_adv, torch.tensor([Y]))


def kl(u: np.ndarray) -> float:
    p = np.exp(u) / np.exp(u).sum()
    return float(np.mean(np.log((1 / len(u)) / p)))


def test_ig_norm(model: LinearSoftmax) -> None:
    expected = np.abs(ig(slope_of_loss, X, X_ADV))
    assert IGNorm(steps=M)(model, pair()).item() == pytest.approx(expected.sum())
    assert IGNorm(steps=M, size="l2")(model, pair()).item() == pytest.approx(np.linalg.norm(expected))


def test_kl_to_uniform_by_hand() -> None:
    # softmax(0, log 3) = (1/4, 3/4)
    value = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert kl_uniform(torch.tensor([[0.0, math.log(3)]])).item() == pytest.approx(value, rel=1e-6)
    assert kl_uniform(torch.tensor([[1e4, 0.0]])).item() == pytest.approx(5e3 - math.log(2), rel=1e-6)
    assert kl_uniform(torch.full((1, 784), 3.0)).item() == 0


def test_kl_keeps_its_precision_where_the_paper_uses_it() -> None:
    # maps of a probability over 784 pixels: about 1e-3 each, a divergence of about 5e-7, under the rounding of log 784
    u = 1e-3 * torch.randn(5, 784, dtype=torch.float64)
    exact = kl_uniform(u)
    torch.testing.assert_close(kl_uniform(u.float()).double(), exact, rtol=1e-3, atol=0)
    naive = torch.logsumexp(u.float(), 1) - u.float().mean(1) - math.log(784)
    assert ((naive - exact) / exact).abs().max() > 0.1
    torch.testing.assert_close(exact, 0.5 * u.var(1, correction=0), rtol=1e-2, atol=0)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_cacr(model: LinearSoftmax, scale: float) -> None:
    logits = W @ X_ADV + BIAS
    negative = max((c for c in range(3) if c != Y), key=lambda c: logits[c])
    true, other = (kl(scale * ig(slope_of_probability, ZERO, X_ADV, c)) for c in (Y, negative))
    assert CACR(steps=M, scale=scale)(model, pair()).item() == pytest.approx(other - true)
    assert CACR(steps=M, scale=scale, nca=False)(model, pair()).item() == pytest.approx(-true)


def test_cacr_with_the_negative_class_chosen_at_every_point(model: LinearSoftmax) -> None:
    def per_point(x: np.ndarray, _: int) -> np.ndarray:
        logits = W @ x + BIAS
        return slope_of_probability(x, max((c for c in range(3) if c != Y), key=lambda c: logits[c]))

    value = kl(ig(per_point, ZERO, X_ADV)) - kl(ig(slope_of_probability, ZERO, X_ADV))
    assert CACR(steps=M, negative="per-point")(model, pair()).item() == pytest.approx(value)


def test_cacr_is_not_bounded_below_by_zero(model: LinearSoftmax) -> None:
    # the appendix of the paper argues L_CACR >= 0; a peaked map of the true class is a counter-example
    assert CACR(steps=M)(model, pair()).item() < -1e-5


@pytest.mark.parametrize("change", CHANGE)
def test_wacr(model: LinearSoftmax, change: str) -> None:
    delta = CHANGE[change]
    agrees = np.sign(BASE) == np.sign(delta)
    first, second = np.abs(delta)[~agrees].sum(), np.abs(BASE * delta)[agrees].sum()
    assert 0 < agrees.sum() < 4  # both sets are there
    loss = WACR(steps=M, change=change)
    assert loss(model, pair()).item() == pytest.approx(first + second)
    context = loss.context(model, pair())
    loss.value(context, {})
    assert context.parts["wacr_p1"].item() == pytest.approx(first)
    assert context.parts["wacr_p2"].item() == pytest.approx(second)
    assert context.parts["share_p2"].item() == pytest.approx(agrees.mean())


def test_wacr_variants(model: LinearSoftmax) -> None:
    delta = CHANGE["difference"]
    agrees = np.sign(BASE) == np.sign(delta)
    assert WACR(steps=M, base_attribution=False)(model, pair()).item() == pytest.approx(np.abs(delta).sum())
    euclidean = np.linalg.norm(delta[~agrees]) + np.linalg.norm((BASE * delta)[agrees])
    assert WACR(steps=M, size="l2")(model, pair()).item() == pytest.approx(euclidean)


def test_the_three_changes_are_three_quantities(model: LinearSoftmax) -> None:
    # stated as equal in the paper; equal only in sum, and there only in the limit of many points
    assert np.abs(CHANGE["difference"] - CHANGE["path"]).max() > 1e-2
    assert np.abs(CHANGE["path"] - CHANGE["loss-path"]).max() > 1e-2
    fine = hf.IntegratedGradients(steps=2000, score=hf.true_probability)
    p = pair()
    difference = (fine(model, p.x_adv, p.y) - fine(model, p.x, p.y)).sum().item()
    assert fine.between(model, p.x, p.x_adv, p.y).sum().item() == pytest.approx(difference, abs=1e-3)


def test_pixel_and_entry_granularity() -> None:
    torch.manual_seed(0)
    net = LinearSoftmax(3 * 4, 3).double()
    p = hf.Pair(torch.rand(1, 3, 2, 2).double(), torch.rand(1, 3, 2, 2).double(), torch.tensor([1]))
    maps = hf.IntegratedGradients(steps=M, score=hf.true_probability)
    base = maps(net, p.x, p.y).detach()
    delta = maps(net, p.x_adv, p.y).detach() - base
    for name, coarse in (("pixel", lambda v: v.sum(1).flatten()), ("entry", torch.flatten)):
        a, d = coarse(base), coarse(delta)
        agrees = a.sign() == d.sign()
        value = d[~agrees].abs().sum() + (a * d)[agrees].abs().sum()
        assert WACR(steps=M, granularity=name)(net, p).item() == pytest.approx(value.item())
        tca = kl(coarse(maps(net, p.x_adv, p.y).detach()).numpy())
        assert CACR(steps=M, granularity=name, nca=False)(net, p).item() == pytest.approx(-tca)


def test_igr_cosine(model: LinearSoftmax) -> None:
    a, b = BASE, ig(slope_of_probability, ZERO, X_ADV)
    value = 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert AttributionCosine(steps=M)(model, pair()).item() == pytest.approx(value)


def test_art_triplet(model: LinearSoftmax) -> None:
    def distance(x: np.ndarray, c: int) -> float:
        return 1 - x @ W[c] / np.linalg.norm(x) / np.linalg.norm(W[c])

    def strongest_other(x: np.ndarray) -> int:
        return max((c for c in range(3) if c != Y), key=lambda c: (W @ x + BIAS)[c])

    positive = max(distance(x, Y) for x in (X, X_ADV))
    negative = min(distance(x, strongest_other(x)) for x in (X, X_ADV))
    value = math.log(1 + math.exp(-(negative - positive)))
    assert AlignmentTriplet()(model, pair()).item() == pytest.approx(value)


def test_art_triplet_on_the_top_entries(model: LinearSoftmax) -> None:
    # |gradient of the true logit| = |W_0| = (1, 2, .5, .3): the top two entries are 0 and 1
    clean = AlignmentTriplet(k=2).prepare(model, pair())
    assert clean["entries"].tolist() == [[True, True, False, False]]


def test_prediction_divergence(model: LinearSoftmax) -> None:
    p, q = probabilities(X), probabilities(X_ADV)
    assert PredictionKL()(model, pair()).item() == pytest.approx(float((p * np.log(p / q)).sum()))


SECOND_ORDER = {
    "cacr": CACR(steps=3, scale=20.0),
    "cacr per point": CACR(steps=3, scale=20.0, negative="per-point"),
    "wacr difference": WACR(steps=3),
    "wacr path": WACR(steps=3, change="path"),
    "wacr loss-path": WACR(steps=3, change="loss-path", granularity="entry"),
    "ig norm": IGNorm(steps=3),
    "igr": AttributionCosine(steps=3),
    "art": AlignmentTriplet(beta=5.0),
    "kl": PredictionKL(),
    "whole": CrossEntropy() + 1.0 * (CACR(steps=3) + WACR(steps=3)),
    "maps": hf.losses.MapCosine(attribution=hf.IntegratedGradients(steps=3), beta=None, through_clean=True),
}


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_gradients_in_the_weights_pass_gradcheck(name: str) -> None:
    torch.manual_seed(2)
    net, loss = AwkwardReLUs().double(), SECOND_ORDER[name]
    p = hf.Pair(torch.rand(2, 1, 4, 4).double(), torch.rand(2, 1, 4, 4).double(), torch.tensor([0, 2]))
    names = [n for n, _ in net.named_parameters()]

    def through(*values: torch.Tensor) -> torch.Tensor:
        call = lambda x: torch.func.functional_call(net, dict(zip(names, values, strict=True)), (x,))  # noqa: E731
        return loss(call, p)

    with hf.softplus_surrogate(beta=3.0):
        assert torch.autograd.gradcheck(through, tuple(net.parameters()), fast_mode=True)


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_gradients_in_the_image_pass_gradcheck(name: str) -> None:
    torch.manual_seed(3)
    net, loss = AwkwardReLUs().double().requires_grad_(False), SECOND_ORDER[name]
    x, x_adv = torch.rand(2, 1, 4, 4).double(), torch.rand(2, 1, 4, 4).double().requires_grad_()
    with hf.softplus_surrogate(beta=3.0):
        assert torch.autograd.gradcheck(lambda v: loss(net, hf.Pair(x, v, torch.tensor([0, 2]))), x_adv, fast_mode=True)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: WACR(change="diference"),
        lambda: WACR(size="l3"),
        lambda: CACR(negative="any"),
        lambda: CACR(granularity="channel"),
        lambda: AlignmentTriplet(channels="rgb"),
    ],
)
def test_unknown_choices_list_the_known_ones(bad) -> None:
    with pytest.raises(hf.InputError, match="expected"):
        bad()
