"""The memory of a search: the mean of the last maps, with the derivative of the newest alone."""

from dataclasses import replace

import torch
from tests.oracles import tiny_images, tiny_net

from holdfast.attacks.path_memory import PathMemory
from holdfast.recipes.attacks.strongest import strongest


def test_mean_of_the_last_steps_by_hand() -> None:
    memory = PathMemory(3)
    for value in (100.0, 1.0, 2.0):  # the first is forgotten
        memory.add(torch.tensor([value, 10 * value]))
    found = torch.tensor([60.0], requires_grad=True)
    shown = memory.complete(found, slice(1, 2))
    assert shown.tolist() == [(60 + 10 + 20) / 3]
    assert torch.autograd.grad(shown.sum(), found)[0].tolist() == [1.0]


def test_a_memory_of_one_step_is_none() -> None:
    memory = PathMemory(1)
    memory.add(torch.ones(2))
    found = torch.tensor([3.0, 4.0])
    assert memory.complete(found, slice(None)) is found


def test_a_map_with_one_point_does_not_use_it() -> None:
    net, x = tiny_net(), tiny_images(3)
    y = net(x).argmax(1)
    attack = strongest(eps=0.1, k=4, ig_steps=1, passes=200)
    without = replace(attack, members=tuple(replace(member, memory=1) for member in attack.members))
    found = [a.run(net, x, y, keys=torch.arange(len(y))) for a in (attack, without)]
    assert torch.equal(found[0].x_adv, found[1].x_adv)
