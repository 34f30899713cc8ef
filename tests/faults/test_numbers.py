"""Numbers at the edge: each has one defined answer (docs/reliability.md): an error, a counted NaN or an exact value."""

from dataclasses import replace

import pytest
import torch
from tests.nets import LinearSoftmax
from torch import Tensor, nn

import holdfast as hf
from holdfast.attacks import Outcome
from holdfast.errors import HoldfastError, InputError
from holdfast.evaluation import EvaluationProtocol, evaluate
from holdfast.evaluation.audit_settings import AuditSettings
from holdfast.training import SGD, DivergedError, fit

NAN, INF = float("nan"), float("inf")
KEYS = torch.arange(4)
SCORES = ("top_k", "kendall", "spearman", "cosine")
QUICK = AuditSettings(steps=2, ig_steps=2, strong=False, limit=6)


def make_net(classes: int = 3, pixels: int = 36) -> hf.Classifier:
    torch.manual_seed(0)
    hidden = nn.Sequential(nn.Linear(pixels, 8), nn.Softplus(), nn.Linear(8, classes))
    return hf.Classifier(nn.Sequential(nn.Flatten(), hidden)).eval()


def images(side: int = 6) -> Tensor:
    return torch.rand(4, 1, side, side, generator=torch.Generator().manual_seed(0))


def ifia(k: int = 5, eps: float = 0.1, **more):
    return hf.recipes.ifia(eps=eps, step_size=0.03, steps=3, k=k, ig_steps=3, **more)


def objective(model: nn.Module, name: str = "erar") -> nn.Module:
    points = {"ig_steps": 3, "attack_ig_steps": 2} if name == "erar" else {}
    return getattr(hf.recipes, name)(model, eps=0.1, attack_steps=2, step_size=0.05, **points)


# ---- NaN and infinity ----


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_images(value: float) -> None:
    """Attacks, and training with one, refuse the images by number; a map of such an image is NaN."""
    net, x = make_net(), images()
    x[2, 0, 1, 1] = value
    y = torch.zeros(4, dtype=torch.int64)
    for run in (
        lambda: ifia().run(net, x, y, keys=KEYS),
        lambda: hf.recipes.pgd(eps=0.1, steps=2)(net, x, y, keys=KEYS),
        lambda: objective(net)(x, y, KEYS),
    ):
        with pytest.raises(InputError, match=r"finite pixels.*images \[2\]|pixels in \[0, 1\]"):
            run()
    if value != value:
        assert hf.IntegratedGradients(steps=3)(net, x, y)[2].isnan().any()


@pytest.mark.parametrize("value", [NAN, INF])
def test_weights(value: float) -> None:
    """A network whose logits are not finite predicts nothing: attacks, evaluation and audit refuse it."""
    net, x = make_net(classes=10, pixels=64), images(8)
    with torch.no_grad():
        net.net[1][2].weight[0, 0] = value
    data = hf.data.load("digits", split="test").subset(range(12))
    zeros = torch.zeros(4, dtype=torch.int64)
    for run in (
        lambda: ifia().run(net, x, zeros, keys=KEYS),
        lambda: evaluate(net, data, EvaluationProtocol(attacks={"ifia-topk": ifia()})),
        lambda: hf.audit(net, data, QUICK),
        lambda: hf.audit(net, data, QUICK, labels="predicted"),
    ):
        with pytest.raises(InputError, match="expected finite logits from the network, got NaN or infinity for images"):
            run()


class BadGradient(nn.Module):
    """Sound values, a gradient that is NaN: the root of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.net = LinearSoftmax(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + (self.net.layer.weight[0, 0] * 0).sqrt()


def test_gradients() -> None:
    """A gradient that is not finite never reaches the weights; the error names the step."""
    model = BadGradient()
    before = [p.clone() for p in model.parameters()]
    loader = hf.data.Loader(hf.data.load("digits").subset(range(32)), 16, seed=0)
    with pytest.raises(DivergedError, match="the gradient became nan at step 1"):
        fit(hf.recipes.natural(model), loader, SGD(lr=0.1)(model), steps=3, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


# ---- maps without a ranking ----


@pytest.mark.parametrize("first", [torch.zeros(1, 2, 2), torch.full((1, 2, 2), NAN), torch.full((1, 2, 2), INF)])
def test_maps_that_say_nothing(first: Tensor) -> None:
    other = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    for metric in ("kendall_tau", "spearman_rho", "cosine_similarity", "center_shift"):
        assert getattr(hf.metrics, metric)(first, other).isnan().all(), metric
    assert hf.metrics.top_k_intersection(first, other, 2).isnan().all()


def test_constant_map() -> None:
    """It has no ranking, but an angle and a centre."""
    flat, other = torch.ones(1, 2, 2), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    for metric in ("kendall_tau", "spearman_rho"):
        assert getattr(hf.metrics, metric)(flat, other).isnan().all()
    assert hf.metrics.top_k_intersection(flat, other, 2).isnan().all()
    assert float(hf.metrics.cosine_similarity(flat, other)) == pytest.approx(10 / (2 * 30**0.5))
    assert float(hf.metrics.center_shift(flat, other)) > 0


def test_zero_map_stays_zero() -> None:
    assert torch.equal(hf.saliency_map(torch.zeros(1, 1, 2, 2)), torch.zeros(1, 2, 2))


def test_black_image_is_counted_as_nan_map() -> None:
    net, x = make_net(), images()
    x[1] = 0
    result = ifia().run(net, x, net(x).argmax(1), keys=KEYS)
    assert result.outcome[1] == Outcome.NAN_MAP
    assert result.counts["nan_map"] == 1


# ---- few classes, few pixels ----


def test_single_class_data() -> None:
    """Can be audited; cannot be trained on, and that is said."""
    data = hf.data.load("digits", split="test").subset(range(12))
    single = replace(data, y=torch.zeros(12, dtype=torch.int64), class_names=("only",))
    net = hf.Classifier(hf.models.build("digits-cnn", num_classes=10, seed=0)).eval()
    with pytest.raises(InputError, match="images that the network predicts correctly, got none"):
        hf.audit(net, single, QUICK)
    assert hf.audit(net, single, QUICK, labels="predicted").summary["n"] == 6
    with pytest.raises(HoldfastError, match="num_classes >= 2"):
        hf.models.build("digits-cnn", num_classes=single.num_classes, seed=0)


def test_one_logit() -> None:
    """It has maps, but no second class to lose: attacks, evaluation and training refuse it and say what to return."""
    net, x, y = make_net(classes=1), images(), torch.zeros(4, dtype=torch.int64)
    assert hf.IntegratedGradients(steps=3)(net, x, y).isfinite().all()
    with pytest.raises(InputError, match=r"at least two logits.*got 1; .*torch\.cat"):
        ifia().run(net, x, y, keys=KEYS)
    for name in ("madry", "erar"):
        with pytest.raises(InputError, match="at least two logits"):
            objective(net, name)(x, y, KEYS)
    with pytest.raises(InputError, match="at least two logits"):
        hf.recipes.natural(net)(x, y, KEYS)


def test_one_pixel() -> None:
    """One entry cannot be ranked: every example is counted as nan_map, and training works."""
    net = make_net(pixels=1)
    x = images(1) + 0.01
    y = net(x.clamp(0, 1)).argmax(1)
    result = ifia(k=1).run(net, x.clamp(0, 1), y, keys=KEYS)
    assert result.counts["nan_map"] == 4
    for metric in (hf.metrics.kendall_tau, hf.metrics.spearman_rho):
        assert metric(torch.ones(1, 1), torch.ones(1, 1)).isnan().all()
    assert objective(net)(x.clamp(0, 1), y, KEYS).total.isfinite()


def test_k_of_all_pixels() -> None:
    """The top P of P pixels are always the same: exactly 1, whatever the attack does."""
    net, x = make_net(), images()
    result = ifia(k=36).run(net, x, net(x).argmax(1), keys=KEYS)
    assert (result.scores.top_k == 1).all()
    assert float(hf.metrics.top_k_intersection(torch.rand(1, 5), torch.rand(1, 5), 5)) == 1
    with pytest.raises(InputError, match="1 <= k <= 36"):
        ifia(k=37).run(net, x, net(x).argmax(1), keys=KEYS)


# ---- no budget, huge logits ----


@pytest.mark.parametrize("ball", [hf.Linf(0.0), hf.L2(0.0)])
@pytest.mark.parametrize("start", [True, False])
def test_no_budget(ball, start: bool) -> None:
    net, x = make_net(), images()
    y = net(x).argmax(1)
    attack = hf.PGD(hf.losses.CrossEntropy(at="perturbed"), ball=ball, steps=3, step_size=0.1, random_start=start)
    assert torch.equal(attack(net, x, y, keys=KEYS), x)
    for kind in ("topk", "random"):
        result = ifia(eps=0.0, kind=kind).run(net, x, y, keys=KEYS)
        assert torch.equal(result.x_adv, x)
        assert all((getattr(result.scores, score) == 1).all() for score in SCORES)
        assert (result.scores.center_shift == 0).all()
    strong = hf.recipes.ifia_ensemble(eps=0.0, k=5, steps=2, ig_steps=2).run(net, x, y, keys=KEYS)
    assert torch.equal(strong.x_adv, x)
    assert all((getattr(strong.worst, score) == 1).all() for score in SCORES)


@pytest.mark.parametrize("size", [1e10, 1e30])
def test_huge_logits(size: float) -> None:
    """Softmax does not overflow: losses are finite, attacks stay in the ball, scores in their range."""
    net, x = make_net(), images()
    with torch.no_grad():
        net.net[1][2].weight.mul_(size)
    y = net(x).argmax(1)
    result = ifia().run(net, x, y, keys=KEYS)
    assert (result.x_adv - x).abs().max() <= 0.1 + 1e-6
    for score in SCORES:
        values = getattr(result.scores, score)
        assert (values.isnan() | ((values >= -1) & (values <= 1))).all()
    for name in ("madry", "erar"):
        output = objective(net, name)(x, y, KEYS)
        assert all(part.isfinite().all() for part in output.parts.values()), name
