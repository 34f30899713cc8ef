"""The layer whose features a class-activation map uses, on networks of every kind."""

import warnings

import pytest
import torch
from tests.nets import AttentionNet, BatchNormNet, Detached
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

import holdfast as hf
from holdfast.models.spatial_layer import last_spatial_layer

SMALL, COLOUR = torch.rand(1, 1, 8, 8), torch.rand(1, 3, 32, 32)


def test_the_last_features_before_they_are_flattened_or_averaged() -> None:
    assert last_spatial_layer(hf.models.build("digits-cnn"), SMALL) == "features"
    assert last_spatial_layer(hf.models.build("wrn-10-2", in_channels=3, image_size=32), COLOUR) == "activation"
    averaged = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3))
    assert last_spatial_layer(averaged, SMALL) == "1"  # [B, 2, 1, 1] has one position only


def test_a_branch_beside_a_skip_connection_does_not_count() -> None:
    class Residual(BatchNormNet):
        def forward(self, x: Tensor) -> Tensor:
            h = self.stem(x)
            return self.head((h + self.body(h)).mean((2, 3)))

    assert last_spatial_layer(Residual(), SMALL) == "stem"  # `body` is bypassed by the sum
    assert last_spatial_layer(BatchNormNet(), SMALL) == "body"  # the sum is written into its output


def test_networks_of_other_packages() -> None:
    from monai.networks.nets import resnet10
    from pytorchcv.models.resnet_cifar import resnet20_cifar10

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these packages warn about while loading is theirs
        found = last_spatial_layer(resnet20_cifar10(), COLOUR)
        assert found.startswith("features.stage3")
        assert last_spatial_layer(resnet10(spatial_dims=2, n_input_channels=3, num_classes=10), COLOUR) == "layer4"


def test_patches_after_the_last_block_have_no_influence() -> None:
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    config = ViTConfig(**sizes, num_hidden_layers=3, image_size=32, patch_size=8, num_labels=10)
    net = hf.Classifier(ViTForImageClassification(config)).eval()
    name = last_spatial_layer(net, COLOUR)
    block = net.get_submodule(name)
    kinds = [type(m) for m in net.modules() if type(m).__name__ == "ViTLayer"]
    assert type(block) is kinds[0]
    assert name.endswith(".1")  # the second of three


def test_tokens_that_are_averaged_count_to_the_last() -> None:
    assert last_spatial_layer(AttentionNet(), torch.rand(1, 1, 4, 4)) == "mlp"


def test_a_shared_module_is_judged_by_its_last_call() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()
            self.first, self.second, self.head = nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1), nn.Linear(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = self.act(self.first(x))
            return self.head((h + self.act(self.second(h))).mean((2, 3)))

    assert last_spatial_layer(Shared(), SMALL) == "first"  # the last call of `act` is bypassed by h


def test_a_last_layer_that_starts_at_zero_is_examined_again() -> None:
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    net = ViTForImageClassification(ViTConfig(**sizes, num_hidden_layers=2, image_size=32, patch_size=8, num_labels=3))
    model = hf.Classifier(net)
    nn.init.zeros_(net.classifier.weight)
    assert not hf.GradCAM()(model, COLOUR, torch.tensor([0])).any()
    before = last_spatial_layer(model, COLOUR)
    nn.init.normal_(net.classifier.weight)
    after = last_spatial_layer(model, COLOUR)
    assert before != after
    nn.init.zeros_(net.classifier.weight)
    assert last_spatial_layer(model, COLOUR) == after  # known by now


def test_nothing_changes_in_the_network() -> None:
    net = BatchNormNet()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    last_spatial_layer(net, SMALL)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.training
    assert all(p.grad is None for p in net.parameters())
    assert not any(module._forward_hooks for module in net.modules())


def test_networks_without_such_a_layer_are_refused() -> None:
    with pytest.raises(hf.InputError, match=r"that nothing bypasses, got Sequential; use another map\.$"):
        last_spatial_layer(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), SMALL)

    class TwoStreams(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right, self.head = nn.Conv2d(1, 2, 1), nn.Conv2d(1, 2, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.cat([self.left(x).mean((2, 3)), self.right(x).mean((2, 3))], 1))

    with pytest.raises(hf.InputError, match=r"got TwoStreams; name the layer to use, one of left, right\.$"):
        last_spatial_layer(TwoStreams(), SMALL)
    with pytest.raises(hf.InputError, match="no gradient; a layer detaches its input"):
        last_spatial_layer(nn.Sequential(nn.Conv2d(1, 1, 1), Detached(), nn.Flatten(), Detached()), SMALL)
