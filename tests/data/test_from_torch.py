"""Tensors and ordinary DataLoaders where a user has no holdfast dataset."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import holdfast as hf
from holdfast.data.from_torch import as_dataset
from holdfast.evaluation.default_protocol import default_protocol
from holdfast.recipes import AttackSettings, make_attacks


def images(count: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    data = hf.data.load("digits", split="test").subset(range(count))
    return hf.data.to_float(data.x), data.y


def protocol() -> hf.EvaluationProtocol:
    attacks = make_attacks(AttackSettings(eps=0.1, steps=2, k=12, ig_steps=3), ["ifia-topk"])
    return hf.EvaluationProtocol(attacks=attacks, pgd=hf.recipes.pgd(eps=0.1, steps=2), panels=2)


def model() -> hf.Classifier:
    return hf.Classifier(hf.models.build("digits-cnn", num_classes=10, seed=0))


@pytest.mark.parametrize("with_ids", [False, True])
def test_evaluate_takes_a_data_loader(with_ids: bool) -> None:
    x, y = images()
    columns = (x, y, torch.arange(24) + 100) if with_ids else (x, y)
    found = hf.evaluate(model(), DataLoader(TensorDataset(*columns), batch_size=5), protocol())
    assert [row.id for row in found.rows] == [i + 100 * with_ids for i in range(24)]
    same = hf.evaluate(model(), hf.data.from_tensors(x, y), protocol())
    assert same.summary["natural_accuracy"] == found.summary["natural_accuracy"]


def test_audit_takes_a_data_loader() -> None:
    loader = DataLoader(TensorDataset(*images()), batch_size=7)
    settings = hf.AuditSettings(eps=0.1, steps=2, ig_steps=3, limit=6, strong=False)
    assert hf.audit(model(), loader, settings, labels="predicted").summary["n"] == 6


@pytest.mark.parametrize("with_ids", [False, True])
def test_fit_takes_a_data_loader_epoch_after_epoch(with_ids: bool) -> None:
    x, y = images()
    columns = (x, y, torch.arange(24)) if with_ids else (x, y)
    loader = DataLoader(TensorDataset(*columns), batch_size=10)  # three batches, the last of four
    weights = []
    for source in (loader, hf.data.Loader(hf.data.from_tensors(x, y), 10, shuffle=False)):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        objective = hf.recipes.madry(net, eps=0.1, attack_steps=1, step_size=0.1)
        assert hf.fit(objective, source, optimizer, steps=7, progress=False).step == 7
        weights.append(nn.utils.parameters_to_vector(net.parameters()).detach())
    assert torch.equal(*weights)


def test_a_resumed_run_skips_the_batches_that_are_done(tmp_path) -> None:
    x, y = images()
    results = []
    for name, sittings in (("once", (7,)), ("twice", (4, 7))):
        net = model()
        for steps in sittings:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            loader = DataLoader(TensorDataset(x, y), batch_size=10)
            settings = hf.FitSettings(steps=steps, run_dir=tmp_path / name, resume=steps != sittings[0], progress=False)
            hf.fit(hf.recipes.natural(net), loader, optimizer, settings)
        results.append(nn.utils.parameters_to_vector(net.parameters()).detach())
    assert torch.equal(*results)


def test_what_cannot_be_used_is_said() -> None:
    x, y = images(4)
    with pytest.raises(hf.InputError, match=r"batches \(x, y\) or \(x, y, id\), got Tensor"):
        hf.data.from_loader([x])
    with pytest.raises(hf.InputError, match=r"pixels in \[0, 1\], got \[0, 255\]"):
        hf.data.from_tensors(x * 255, y)
    with pytest.raises(hf.InputError, match="at least one batch"):
        hf.data.from_loader([])
    with pytest.raises(hf.InputError, match="a DataLoader"):
        hf.evaluate(model(), 3, protocol())
    with pytest.raises(hf.InputError, match="settings or options"):
        hf.fit(hf.recipes.natural(model()), [(x, y)], None, hf.FitSettings(steps=1), steps=2)
    assert hf.data.from_tensors(x, y).checksum != hf.data.from_tensors(1 - x, y).checksum


def test_arrays_and_pairs() -> None:
    x, y = images(4)
    grey = (255 * x).round().byte()
    colour = grey.repeat(1, 3, 1, 1)
    wanted = hf.data.from_tensors(colour, y)
    for form in (colour.numpy(), colour.movedim(1, -1), colour.movedim(1, -1).numpy()):
        found = hf.data.from_tensors(form, y.numpy())
        assert torch.equal(found.x, wanted.x)
        assert found.checksum == wanted.checksum
    assert hf.data.from_tensors(x.double(), y.int()).x.dtype == torch.float32
    assert torch.equal(as_dataset((grey, y)).x, grey)
    assert torch.equal(as_dataset([(grey, y), (grey, y)]).x, torch.cat([grey, grey]))
    with pytest.raises(hf.InputError, match=r"y as whole numbers \[4\], one class per image, got torch.float32"):
        hf.data.from_tensors(x, y.float())
    with pytest.raises(hf.InputError, match=r"y as whole numbers \[4\].*shape \[3\]"):
        hf.data.from_tensors(x, y[:3])
    with pytest.raises(hf.InputError, match="tensors or arrays, got list and Tensor"):
        hf.data.from_tensors(np.zeros(3).tolist(), y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_not_there() -> None:
    for call in (hf.evaluate, hf.audit):
        with pytest.raises(hf.InputError, match="a device this machine has, got 'cuda'"):
            call(model(), images(4), device="cuda")


def test_bytes_are_not_explained_as_pixels() -> None:
    x, y = images(2)
    with pytest.raises(hf.InputError, match=r"pixels in \[0, 1\], got up to 255; divide them by 255"):
        hf.IntegratedGradients(steps=2)(model(), x * 255, y)
    with pytest.raises(hf.InputError, match=r"float images.*got torch.uint8"):
        hf.Gradient()(model(), x.byte(), y)


def test_the_default_protocol_is_that_of_an_audit() -> None:
    protocol = default_protocol(hf.data.from_tensors(*images(4)))
    assert list(protocol.attacks) == ["strongest", "strongest-true-logit", "random", "random-centred"]
    assert {attack.eval_k for attack in protocol.attacks.values()} == {6}
    assert protocol.attacks["strongest"].ball == hf.Linf(8 / 255)
    assert (protocol.limit, protocol.pgd_limit) == (64, 64)


def test_pixels_identify_a_dataset_without_a_checksum(tmp_path) -> None:
    first = replace(hf.data.from_tensors(*images(4)), checksum="")
    hf.evaluate(model(), first, replace(protocol(), panels=0), out=tmp_path)
    with pytest.raises(hf.DataError, match="rows with another images"):
        hf.evaluate(model(), replace(first, x=1 - first.x), replace(protocol(), panels=0), out=tmp_path)
