"""Grad-CAM and Grad-CAM++: by hand, differentiated twice, in threads, on transformers, and attacked."""

import copy
import math
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.conformance.battery import _Called
from tests.nets import AwkwardReLUs, BatchNormNet
from tests.trained import digits, trained
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

import holdfast as hf
from holdfast.attacks import Outcome
from holdfast.attribution import GradCAM, GradCAMPlusPlus
from holdfast.engine import parallel
from holdfast.engine.passes import count_passes
from holdfast.losses import MapCosine

CAMS = pytest.mark.parametrize("cam", [GradCAM, GradCAMPlusPlus])
X = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(1)).double()
Y = torch.tensor([0, 2, 1])


def by_hand() -> nn.Sequential:
    """x [1, 4] -> two channels x and -x, means of pairs of pixels, three logits of these four features."""
    net = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.AvgPool2d((1, 2)), nn.Flatten(), nn.Linear(4, 3, bias=False))
    net[0].weight.data.copy_(torch.tensor([1.0, -1.0]).reshape(2, 1, 1, 1))
    net[3].weight.data.copy_(torch.tensor([[1.0, 3.0, -2.0, 0.0], [-1.0, -3.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]))
    return net


PIXELS = torch.tensor([[[[1.0, 3.0, 5.0, 7.0]]]])  # features (2, 6) and (-2, -6)


def test_gradcam_by_hand() -> None:
    # class 0: w = (2, -1), map 2 (2, 6) - (-2, -6) = (6, 18), upsampled by 2: 6, 6 3/4 + 18/4, 6/4 + 18 3/4, 18
    assert GradCAM()(by_hand(), PIXELS, torch.tensor([0])).flatten().tolist() == pytest.approx([6, 9, 15, 18])
    # class 1: w = (-2, 0), map (-4, -12), so nothing is positive; class 2: w = (0, 1), map (-2, -6)
    for label in (1, 2):
        assert not GradCAM()(by_hand(), PIXELS, torch.tensor([label])).any()


def test_gradcam_plus_plus_by_hand() -> None:
    # class 0: sum of the features 8 and -8; w_0 = 1 / (2 + 8) + 3 / (2 + 24), w_1 = 0 / 2, since -2 is not positive
    weight = 0.1 + 3 / 26
    found = GradCAMPlusPlus()(by_hand(), PIXELS, torch.tensor([0])).flatten().tolist()
    assert found == pytest.approx([2 * weight, 3 * weight, 5 * weight, 6 * weight])


def test_the_score_is_explained() -> None:
    # centred logit: gradient (1, 3, -2, 0) - mean (0, 0, -1/3, 1/3) = (1, 3, -5/3, -1/3), w = (2, -1)
    found = GradCAM(score=hf.centred_logit)(by_hand(), PIXELS, torch.tensor([0])).flatten().tolist()
    assert found == pytest.approx([6, 9, 15, 18])
    probability = GradCAM(score=hf.true_probability)(by_hand(), PIXELS, torch.tensor([0]))
    p = by_hand()(PIXELS).softmax(1)[0].tolist()
    slope = torch.tensor([[1.0, 3.0, -2.0, 0.0], [-1.0, -3.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    row = p[0] * (slope[0] - sum(p[c] * slope[c] for c in range(3)))  # gradient of softmax(z)_0
    low = (row[:2].mean() * 2 - row[2:].mean() * 2).item()
    assert probability.flatten()[0].item() == pytest.approx(max(0.0, low), rel=1e-4)


def test_the_surrogate_smooths_the_map_in_units_of_its_mean() -> None:
    # class 1 by hand: (-4, -12), mean size 8, so softplus(-1/2) 8 and softplus(-3/2) 8; no ReLU in the network itself
    with hf.softplus_surrogate(beta=1.0):
        found = GradCAM(layer="1")(by_hand(), PIXELS, torch.tensor([1])).flatten().tolist()
    a, b = (8 * math.log1p(math.exp(t)) for t in (-0.5, -1.5))
    assert found == pytest.approx([a, 0.75 * a + 0.25 * b, 0.25 * a + 0.75 * b, b])


@CAMS
def test_every_channel_holds_the_map(cam: type[GradCAM]) -> None:
    net = hf.models.build("paper-resnet", num_classes=7, in_channels=3, image_size=32, units_per_stage=1, seed=1).eval()
    x = torch.rand(2, 3, 32, 32)
    found = cam()(net, x, torch.tensor([0, 3]))
    assert found.shape == x.shape
    assert torch.equal(found[:, 0], found[:, 2])
    assert (found >= 0).all()


@CAMS
@pytest.mark.parametrize("score", [hf.true_logit, hf.true_probability, hf.true_loss])
@pytest.mark.parametrize("build", [AwkwardReLUs, BatchNormNet])
def test_second_derivatives_pass_gradcheck(build: Callable, score: hf.types.Score, cam: type[GradCAM]) -> None:
    torch.manual_seed(4)
    model = build().double().eval().requires_grad_(False)
    attribution = cam(score=score)
    x = X[:2].clone().requires_grad_()
    with hf.softplus_surrogate(beta=2.0):
        assert attribution(model, x, Y[:2]).any()
        assert torch.autograd.gradcheck(lambda x: attribution(model, x, Y[:2], create_graph=True), x, fast_mode=True)


@CAMS
def test_parameters_get_exact_gradients_through_the_map(cam: type[GradCAM]) -> None:
    model = AwkwardReLUs().double()
    names = [name for name, _ in model.named_parameters()]
    weights = tuple(parameter.detach().clone().requires_grad_() for parameter in model.parameters())

    def through(*values: Tensor) -> Tensor:
        called = _Called(copy.deepcopy(model), dict(zip(names, values, strict=True)))
        return cam()(called, X[:2], Y[:2], create_graph=True)

    with hf.softplus_surrogate(beta=2.0):
        assert torch.autograd.gradcheck(through, weights, fast_mode=True)


@CAMS
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_split_of_the_batch_changes_nothing(cam: type[GradCAM], create_graph: bool) -> None:
    model = AwkwardReLUs().double()
    whole = cam(chunk=1000)(model, X, Y, create_graph=create_graph)
    alone = torch.cat([cam()(model, X[i : i + 1], Y[i : i + 1], create_graph=create_graph) for i in range(3)])
    torch.testing.assert_close(alone, whole, rtol=1e-12, atol=1e-14)
    for chunk in (1, 2):
        parts = cam(chunk=chunk)(model, X, Y, create_graph=create_graph)
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-14)
    assert whole.requires_grad == create_graph


def test_several_targets_share_the_forward_pass_and_the_logits_come_along() -> None:
    model = AwkwardReLUs().double()
    GradCAM().layer_of(model, X)
    targets = [(hf.true_logit, Y), (hf.true_probability, (Y + 1) % 3)]
    with count_passes() as counter:
        found = GradCAM().maps(model, X, targets)
    assert counter.passes == 3 * len(X)  # one forward, two gradients
    torch.testing.assert_close(found.logits, model(X).detach())
    for (score, y), ours in zip(targets, found.maps, strict=True):
        torch.testing.assert_close(ours, GradCAM(score=score)(model, X, y))


def test_no_images() -> None:
    assert GradCAM()(by_hand(), PIXELS[:0], Y[:0]).shape == PIXELS[:0].shape


def test_leaves_the_world_as_found() -> None:
    model = BatchNormNet().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    GradCAM().layer_of(model, X.float())
    assert all(module.training for module in model.modules())
    model.eval()
    with torch.no_grad():  # the mode of the caller does not matter
        assert not GradCAM()(model, X.float(), Y).requires_grad
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_an_error_in_the_network_leaves_no_hook() -> None:
    class Fails(BatchNormNet):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise RuntimeError("broken")

    for attribution in (GradCAM(), GradCAM(layer="stem")):
        model = Fails().eval()
        with pytest.raises(RuntimeError, match="broken"):
            attribution(model, X.float(), Y)
        assert not any(module._forward_hooks for module in model.modules())


def test_a_layer_by_name() -> None:
    model = hf.Classifier(hf.models.build("digits-cnn", seed=0), mean=0.5, std=0.5).eval()
    x, y = torch.rand(2, 1, 8, 8), torch.tensor([3, 8])
    whole = GradCAM(layer="net.features.0")(model, x, y)
    assert torch.equal(GradCAM(layer="features.0")(model, x, y), whole)  # the end of the name is enough
    assert not torch.allclose(GradCAM()(model, x, y), whole)
    assert torch.equal(GradCAM()(model, x, y), GradCAM(layer="net.features.4")(model, x, y))


def test_unknown_and_unsuitable_layers_are_one_sentence() -> None:
    model, x, y = hf.models.build("digits-cnn", seed=0), torch.rand(1, 1, 8, 8), torch.tensor([3])
    names = r"got 'featurs.3'; the nearest names are features.3, features.\d, features.\d\.$"
    with pytest.raises(hf.InputError, match=names):
        GradCAM(layer="featurs.3")(model, x, y)
    with pytest.raises(hf.InputError, match=r"name of one module of the network, got '0'; the nearest names are "):
        GradCAM(layer="0")(model, x, y)  # features.0 and head.0
    with pytest.raises(hf.InputError, match=r"spatial features from the layer 'head.1', got shape \[1, 48\]"):
        GradCAM(layer="head.1")(model, x, y)
    model.unused = nn.Conv2d(1, 1, 1)
    with pytest.raises(hf.InputError, match=r"the layer 'unused' to be part of the forward pass, got no output"):
        GradCAM(layer="unused")(model, x, y)
    with pytest.raises(hf.InputError, match=r"expected a torch.nn.Module, got function; the features of a plain"):
        GradCAM()(lambda x: x.flatten(1), x, y)


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 2**10)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@CAMS
def test_chunks_in_threads_do_not_see_each_others_features(cam: type[GradCAM], three_threads: None) -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    x, y = torch.rand(24, 1, 16, 16), torch.arange(24) % 10
    seen: set[str] = set()
    model[1].forward = lambda z: (seen.add(threading.current_thread().name), torch.relu(z))[1]
    for _ in range(20):
        found = cam()(model, x, y)
        alone = torch.cat([cam(layer="1")(model, x[i : i + 1], y[i : i + 1]) for i in range(0, 24, 5)])
        torch.testing.assert_close(found[::5], alone, rtol=1e-4, atol=1e-6)
    assert len(seen) > 2
    loss = MapCosine(attribution=cam(), beta=None)
    attack = hf.PGD(loss, ball=hf.Linf(0.1), steps=2, step_size=0.05, random_start=True)
    keys = hf.make_keys(0, torch.arange(24))
    together = attack.run(model, x, y, keys=keys).value
    torch.set_num_threads(1)
    torch.testing.assert_close(together, attack.run(model, x, y, keys=keys).value, rtol=1e-2, atol=1e-4)


def vision_transformer(layers: int = 2, size: int = 16) -> nn.Module:
    torch.manual_seed(5)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "initializer_range": 0.5}
    config = ViTConfig(**sizes, num_hidden_layers=layers, image_size=size, patch_size=4, num_labels=3)
    return hf.Classifier(ViTForImageClassification(config)).eval()


@CAMS
def test_tokens_of_a_transformer_are_a_grid(cam: type[GradCAM]) -> None:
    model = vision_transformer().double()
    x, y = torch.rand(3, 3, 16, 16).double(), Y
    layer = cam().layer_of(model, x)
    features = {}
    hook = model.get_submodule(layer).register_forward_hook(lambda _, __, output: features.update(A=output))
    score = model(x).gather(1, y[:, None]).sum()
    hook.remove()
    (gradient,) = torch.autograd.grad(score, features["A"])
    grids = [t[:, 1:].transpose(1, 2).reshape(3, 16, 4, 4) for t in (features["A"], gradient)]  # no class token
    weights = cam().channel_weights(*grids)
    small = (weights[:, :, None, None] * grids[0]).sum(1, keepdim=True).clamp(min=0)
    large = nn.functional.interpolate(small, size=(16, 16), mode="bilinear").expand_as(x)
    assert large.any()
    torch.testing.assert_close(cam()(model, x, y), large.detach())
    image = x[:1].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: cam()(model, v, y[:1], create_graph=True), image, fast_mode=True)


@CAMS
def test_ifia_moves_the_map_and_keeps_the_label(cam: type[GradCAM]) -> None:
    model, (x, y) = trained("digits-cnn", 8), digits("test")
    x, y = x[:40], y[:40]
    attack = hf.recipes.ifia(eps=0.15, step_size=0.02, steps=15, k=10, attribution=cam())
    result = attack.run(model, x, y, keys=hf.make_keys(0, torch.arange(40)))
    moved = result.outcome == Outcome.ATTACKED
    assert int(moved.sum()) >= 25
    assert not result.random_steps.any()  # the map of the surrogate has a gradient where the map is zero
    assert torch.equal(model(result.x_adv[moved]).argmax(1), y[moved])
    assert float((result.x_adv - x).abs().max()) <= 0.15 + 1e-6
    control = hf.recipes.ifia(eps=0.15, step_size=0.02, steps=15, k=10, attribution=cam(), kind="random")
    noise = control.run(model, x, y, keys=hf.make_keys(0, torch.arange(40)))
    assert result.scores.top_k[moved].nanmean() < noise.scores.top_k.nanmean() - 0.05


def test_training_against_the_map_lowers_its_distance() -> None:
    torch.manual_seed(2)
    net = hf.models.build("digits-cnn", seed=0)
    x, y = digits("train")
    x, y = x[:32], y[:32]
    x_adv = (x + 0.1 * torch.randn(x.shape)).clamp(0, 1)
    loss = MapCosine(attribution=GradCAM(), beta=5.0, through_clean=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    values = []
    for _ in range(15):
        value = loss(net, hf.Pair(x, x_adv, y)).mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.7 * values[0]
