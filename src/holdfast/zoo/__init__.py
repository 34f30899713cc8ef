"""Trained networks that can be loaded by name: small ones ship with the package, others are downloaded and verified.

    hf.zoo.list()                       # what there is
    hf.zoo.card("gtsrb/madry")          # data, method, figures, licence, how to make it again
    model = hf.load("zoo:gtsrb/madry")  # a Classifier in evaluation mode

`python -m holdfast.zoo.build` makes the index, the cards and the packaged weights from run directories.
"""

from holdfast.zoo.index import ZooNetwork, card
from holdfast.zoo.index import list_networks as list  # noqa: A004 - hf.zoo.list()
from holdfast.zoo.weights import fetch

__all__ = ["ZooNetwork", "card", "fetch", "list"]
