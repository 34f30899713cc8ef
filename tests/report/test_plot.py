"""A map over its image, as a figure."""

import io

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.report.overlay import heat_table, overlay


def drawn(*arguments: object, **options: object) -> np.ndarray:
    figure = hf.plot(*arguments, **options)
    figure.savefig(io.BytesIO(), format="png")
    return np.asarray(figure.axes[0].images[0].get_array())


MAP = np.array([[0.0, 1.0], [2.0, 4.0]])
GREY = np.array([[0, 50], [100, 200]], np.uint8)


def test_the_map_lies_over_the_image() -> None:
    levels = np.rint(MAP / 4 * 255).astype(np.uint8)
    assert np.array_equal(drawn(MAP, GREY, scale=4.0), overlay(GREY, levels))
    assert np.array_equal(drawn(MAP, GREY, scale=8.0), overlay(GREY, np.rint(MAP / 8 * 255).astype(np.uint8)))


@pytest.mark.parametrize(
    "image",
    [GREY[None], GREY[None, None], torch.from_numpy(GREY), torch.from_numpy(GREY)[None].float() / 255, GREY[..., None]],
)
def test_forms_of_an_image(image: object) -> None:
    assert np.array_equal(drawn(MAP, image), drawn(MAP, GREY))


def test_colour_images_in_both_orders() -> None:
    image = np.random.default_rng(0).random((3, 5, 7))
    saliency = torch.rand(5, 7, requires_grad=True)
    assert np.array_equal(drawn(saliency, image), drawn(saliency, image.transpose(1, 2, 0)))


def test_attributions_are_summed_over_channels() -> None:
    attribution = np.stack([MAP, -MAP, 2 * MAP])
    assert np.array_equal(drawn(attribution, GREY), drawn(4 * MAP, GREY))
    assert np.array_equal(drawn(attribution[None], GREY), drawn(MAP, GREY))  # the scale follows the map


def test_a_map_without_importance_and_one_with_gaps() -> None:
    assert np.array_equal(drawn(np.zeros((2, 2)), GREY), overlay(GREY, np.zeros((2, 2), np.uint8)))
    assert np.array_equal(
        drawn(np.array([[np.nan, 4.0], [4, 4]]), GREY)[0, 1], overlay(GREY, np.full((2, 2), 255, np.uint8))[0, 1]
    )
    assert len(heat_table()) == 256


@pytest.mark.parametrize(
    ("saliency", "image", "message"),
    [
        (np.zeros((3, 2)), GREY, "as large as the image"),
        (np.zeros((2, 1, 2, 2)), GREY, "one example of the batch"),
        (MAP, GREY * 1.0, "undo the normalisation"),
        (MAP, np.zeros((2, 2, 2), np.uint8), "1 or 3 channels"),
        ("map", GREY, "numbers as map"),
    ],
)
def test_what_cannot_be_drawn(saliency: object, image: object, message: str) -> None:
    with pytest.raises(hf.InputError, match=message):
        hf.plot(saliency, image)
    with pytest.raises(hf.InputError, match="scale > 0"):
        hf.plot(MAP, GREY, scale=0)
