"""'paper-cnn': the MNIST and Fashion-MNIST network of RAR and ERAR."""

from torch import Tensor, nn

from holdfast.errors import expected
from holdfast.models.networks.initialize import truncated_normal_


class PaperCNN(nn.Module):
    """conv 5x5x32, ReLU, max-pool 2, conv 5x5x64, ReLU, max-pool 2, fc 1024, ReLU, fc K; SAME padding.

    This implementation pools before the ReLU. Max-pooling commutes with every increasing activation, and
    the ReLU is then evaluated on only a quarter of the entries.

    Image sides must be divisible by 4. `init` is 'paper' (weights from a normal of standard deviation 0.1 truncated at
    0.2, biases 0.1) or 'torch' (PyTorch's default).

    Reference: Chen et al. 2019, Robust Attribution Regularization (arXiv:1905.09957), released code.
    """

    scale_invariant = False

    def __init__(self, *, num_classes: int, in_channels: int, image_size: tuple[int, int], init: str = "paper") -> None:
        super().__init__()
        if init not in _INITIALISERS:
            raise expected(f"init to be one of {', '.join(_INITIALISERS)}", got=repr(init))
        height, width = image_size
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 32, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 1024),
            nn.ReLU(),
            nn.Linear(1024, num_classes),
        )
        _INITIALISERS[init](self)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def _as_published(net: nn.Module) -> None:
    """Every weight from a truncated normal of standard deviation 0.1, every bias 0.1."""
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):
            nn.init.constant_(parameter, 0.1)
        else:
            truncated_normal_(parameter, std=0.1)


def _as_constructed(net: nn.Module) -> None:
    """Keep PyTorch's default initialisation."""


_INITIALISERS = {"paper": _as_published, "torch": _as_constructed}
