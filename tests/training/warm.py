"""Imported once by the server of test processes: whatever PyTorch loads on first use is loaded here."""

from tests.training.stand_in import train

train(steps=1)
