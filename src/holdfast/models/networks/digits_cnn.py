"""'digits-cnn': a small network for the 8 x 8 digits, quick to train on one core."""

from torch import Tensor, nn


class DigitsCNN(nn.Module):
    """conv 3x3x16, ReLU, max-pool 2, conv 3x3x32, ReLU, fc 48, ReLU, fc K; 29,914 parameters for 10 digits.

    Image sides must be even. Initialisation is PyTorch's default.
    """

    scale_invariant = False

    def __init__(self, *, num_classes: int, in_channels: int, image_size: tuple[int, int]) -> None:
        super().__init__()
        height, width = image_size
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * (height // 2) * (width // 2), 48),
            nn.ReLU(),
            nn.Linear(48, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits
