"""The losses of LGA, AdvAAT, R2ET and the curvature, by hand on quadratic and linear-softmax networks."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr
from tests.losses.test_paper_losses import BIAS, X_ADV, ZERO, M, W, X, Y, ig, pair, probabilities, slope_of_probability
from tests.losses.test_paper_losses import slope_of_loss as slope
from tests.nets import LinearSoftmax, Quadratic
from tests.oracles import tiny_images, tiny_net

import holdfast as hf
from holdfast import rng
from holdfast.losses import AttributionPearson, Curvature, FiniteCurvature, GradientAlignment, TopKGap
from holdfast.losses.curvature import STREAM

ENTRIES = 4


@pytest.fixture
def linear() -> LinearSoftmax:
    net = LinearSoftmax(4, 3).double()
    with torch.no_grad():
        net.layer.weight[:] = torch.from_numpy(W)
        net.layer.bias[:] = torch.from_numpy(BIAS)
    return net


@pytest.fixture
def quadratic() -> Quadratic:
    return Quadratic(torch.from_numpy(W))  # logit_c = sum_i w_ci x_i^2, so g = 2 w x and H = diag(2 w)


def test_gradient_alignment(quadratic: Quadratic) -> None:
    before, after = 2 * W[Y] * X, 2 * W[Y] * X_ADV
    cosine = before @ after / (np.linalg.norm(before) * np.linalg.norm(after))
    loss = GradientAlignment(l2_weight=0.5, cosine_weight=3.0)
    expected = 0.5 * ((before - after) ** 2).sum() + 3 * (1 - cosine) / 2
    assert loss(quadratic, pair()).item() == pytest.approx(expected)


def test_gradient_alignment_moves_only_the_perturbed_side(quadratic: Quadratic) -> None:
    GradientAlignment(l2_weight=1.0, cosine_weight=0.0)(quadratic, pair()).sum().backward()
    found = quadratic.weight.grad.numpy()
    # d/dw_i (2 w_i x_i - 2 w_i x'_i)^2 with the first product held fixed
    np.testing.assert_allclose(found[Y], 2 * (2 * W[Y] * X - 2 * W[Y] * X_ADV) * (-2 * X_ADV))
    assert not np.delete(found, Y, axis=0).any()


def test_pearson_equals_scipy(linear: LinearSoftmax) -> None:
    before, after = (ig(slope_of_probability, ZERO, end) for end in (X, X_ADV))
    loss = AttributionPearson(steps=M)
    assert loss(linear, pair()).item() == pytest.approx(1 - pearsonr(before, after).statistic)
    with torch.no_grad():  # in a search the clean map is computed once
        clean = loss.prepare(linear, pair())
        assert clean["map"].flatten().numpy() == pytest.approx(before)
    assert loss(linear, pair(), clean).item() == pytest.approx(1 - pearsonr(before, after).statistic)


def test_pearson_ignores_what_the_cosine_sees(linear: LinearSoftmax) -> None:
    same = hf.Pair(pair().x, pair().x, pair().y)
    assert AttributionPearson(steps=M)(linear, same).item() == pytest.approx(0, abs=1e-12)
    assert AttributionPearson(steps=M)(linear, pair()).item() != pytest.approx(
        hf.losses.AttributionCosine(steps=M)(linear, pair()).item(), rel=1e-2
    )


def test_top_k_gap(linear: LinearSoftmax) -> None:
    h = np.sort(np.abs(slope(X, Y)))[::-1]
    assert TopKGap(k=1)(linear, pair()).item() == pytest.approx(h[1] - h[0])
    assert TopKGap(k=2)(linear, pair()).item() == pytest.approx(h[2] + h[3] - h[0] - h[1])
    assert TopKGap(k=3)(linear, pair()).item() == pytest.approx(h[3] - h[0] - h[1] - h[2])  # only one is left behind
    # the pairs of ranks (i, k) for i < k and (k, k + i) for i <= k, counted from one
    k = 2
    pairs = [(i, k) for i in range(1, k)] + [(k, k + i) for i in range(1, k + 1)]
    by_pairs = sum(h[low - 1] - h[high - 1] for high, low in pairs)
    assert TopKGap(k=k)(linear, pair()).item() == pytest.approx(by_pairs)
    with pytest.raises(hf.InputError, match="k < 4"):
        TopKGap(k=4)(linear, pair())


def test_channels_are_summed_before_they_are_ranked() -> None:
    net = LinearSoftmax(8, 2).double()
    with torch.no_grad():
        net.layer.weight[:] = torch.tensor([[3.0, 0, 0, 1, 0, -2, 0, 1], [0.0] * 8])
        net.layer.bias.zero_()
    x = torch.zeros(1, 2, 2, 2).double()
    # at x = 0 both probabilities are 1/2: |g| is half of |w_0|, and its pixels are 3, 2, 0, 2 halves
    assert TopKGap(k=1)(net, hf.Pair(x, x, torch.tensor([0]))).item() == pytest.approx((2 - 3) / 2)


def test_finite_curvature(linear: LinearSoftmax) -> None:
    for eta in (1e-3, 0.5):
        sign = np.sign(slope(X, Y))
        by_hand = np.linalg.norm(slope(X + eta * sign, Y) - slope(X, Y)) / (eta * ENTRIES)
        assert FiniteCurvature(eta=eta)(linear, pair()).item() == pytest.approx(by_hand)
    p = probabilities(X)
    hessian = W.T @ (np.diag(p) - np.outer(p, p)) @ W
    limit = np.linalg.norm(hessian @ np.sign(slope(X, Y))) / ENTRIES
    assert FiniteCurvature(eta=1e-5)(linear, pair()).item() == pytest.approx(limit, rel=1e-3)


def test_r2et_looks_at_the_clean_image_once(linear: LinearSoftmax) -> None:
    images = 0

    def counting(x: torch.Tensor) -> torch.Tensor:
        nonlocal images
        images += len(x)
        return linear(x)

    (hf.losses.CrossEntropy(at="clean") + TopKGap(k=1) + FiniteCurvature())(counting, pair())
    assert images == 2  # x, and the point beside it


def test_curvature(quadratic: Quadratic) -> None:
    for keys in (None, torch.tensor([7])):
        v = rng.normal(torch.tensor([0]) if keys is None else keys, pair().x, stream=STREAM).flatten().numpy()
        found = Curvature()(quadratic, hf.Pair(pair().x, pair().x_adv, pair().y, keys=keys))
        assert found.item() == pytest.approx(((2 * W[Y] * v) ** 2).sum())
    found.sum().backward()
    np.testing.assert_allclose(quadratic.weight.grad[Y].numpy(), 8 * W[Y] * v**2)


def test_curvature_is_the_frobenius_norm_on_average(quadratic: Quadratic) -> None:
    n = 4000
    x, y = pair().x.expand(n, -1, -1, -1), pair().y.expand(n)
    with torch.no_grad():
        found = Curvature()(quadratic, hf.Pair(x, x, y, keys=hf.make_keys(0, torch.arange(n))))
    assert float(found.mean()) == pytest.approx(((2 * W[Y]) ** 2).sum(), rel=0.1)


def test_curvature_of_a_relu_network_is_zero_and_that_of_its_surrogate_is_not() -> None:
    net, x, y = tiny_net(), tiny_images(1), torch.tensor([1])
    one = hf.Pair(x, x, y)
    assert Curvature()(net, one).item() == 0
    v = rng.normal(torch.tensor([0]), x, stream=STREAM)
    with hf.softplus_surrogate(beta=3.0):
        _, product = torch.autograd.functional.hvp(lambda at: net(at)[0, 1], x, v)
    found = Curvature(beta=3.0)(net, one)
    assert found.item() == pytest.approx(product.square().sum().item())
    assert found.item() > 0
    with torch.no_grad():
        assert Curvature(beta=3.0)(net, one).item() == pytest.approx(found.item())
    smooth = hf.models.SoftplusNetwork(net, beta=3.0)  # smooth already: the surrogate leaves it as it is
    assert Curvature(beta=1.0)(smooth, one).item() == pytest.approx(found.item())


def test_bad_settings() -> None:
    for bad in (lambda: TopKGap(k=0), lambda: FiniteCurvature(eta=0.0)):
        with pytest.raises(hf.InputError, match="expected"):
            bad()
