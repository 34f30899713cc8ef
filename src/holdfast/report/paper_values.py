"""Every number in the tables of the ERAR paper, to be shown next to ours.

Sarkar, Sarkar and Balasubramanian, "Enhanced Regularizers for Attributional Robustness", AAAI 2021. Fractions in
[0, 1]; top-k, Kendall and Spearman are medians over the test set under the IFIA top-k attack. The paper gives no
intervals. Its coefficient tables have labels with 0.5 in the TeX source but captions with 0.7; this file follows the
captions.
"""

from dataclasses import dataclass
from functools import cache

METHODS = {
    "ig-sum-norm": "rar",
    "rar-ig-sum-norm": "rar",
    "singh": "art",
    "at": "madry",
    "ours": "erar",
}
"""Our method name -> the paper's. The RAR row is IG-SUM-NORM of Chen et al.; `erar` is the paper's own method."""

DATASETS = {"fmnist": "fashion-mnist", "f-mnist": "fashion-mnist", "flower": "flower17"}
"""Alternative dataset name -> the name used here."""

SMALL, WIDE = "small", "wrn-28-10"
"""The paper's two kinds of network: the small CNN or ResNet of each dataset, and the wide ResNet."""


def is_wide(network: str) -> bool:
    """Whether a network of ours stands for the paper's wide ResNet, whatever its depth and width are."""
    return network.lower().startswith("wrn-")


@dataclass(frozen=True, kw_only=True)
class PaperValue:
    """One published number and its table."""

    table: str
    dataset: str
    network: str
    method: str
    metric: str
    value: float


TITLES = {
    "flower17": "Results on Flower dataset",
    "fashion-mnist": "Results on Fashion-MNIST dataset",
    "mnist": "Results on MNIST dataset",
    "gtsrb": "Results on GTSRB dataset",
    "flower17-wrn": "Results on Flower dataset (WRN 28-10 architecture)",
    "gtsrb-wrn": "Results on GTSRB dataset (WRN 28-10 architecture)",
    "ablation-cacr": "Results of using only CACR",
    "ablation-wacr": "Results of using only WACR",
    "coefficients-wacr": "Coefficients CACR = 1 and WACR = 0.7",
    "coefficients-cacr": "Coefficients CACR = 0.7 and WACR = 1",
    "no-base": "Without the base attribution in WACR",
    "quality": "Spearman correlation with the maps of a naturally trained model",
    "spearman": "Median Spearman correlation (WRN 28-10 architecture)",
    "human": "Share of human votes for the map most true to the object",
}
"""Table id -> caption in the paper."""

# dataset, method: natural accuracy %, PGD accuracy %, top-k %, Kendall
_MAIN = {
    "flower17": """
        flower17 natural 86.76  0.00  8.12 .4978
        flower17 madry   83.82 41.91 55.87 .7784
        flower17 rar     82.35 47.06 66.33 .7974
        flower17 erar    83.09 51.47 69.50 .8121""",
    "fashion-mnist": """
        fashion-mnist natural 90.86  0.01 39.01 .4610
        fashion-mnist madry   85.73 73.01 46.12 .6251
        fashion-mnist rar     85.44 70.26 72.08 .6747
        fashion-mnist erar    85.45 71.61 81.50 .7216""",
    "mnist": """
        mnist natural 99.17  0.00 46.61 .1758
        mnist madry   98.40 92.47 62.56 .2422
        mnist rar     98.34 88.17 72.45 .3111
        mnist erar    98.41 89.53 81.00 .3494""",
    "gtsrb": """
        gtsrb natural 98.57 21.05 54.16 .6790
        gtsrb madry   97.59 83.24 68.85 .7520
        gtsrb rar     95.68 77.12 74.04 .7684
        gtsrb erar    97.57 82.33 77.15 .7889""",
    "flower17-wrn": """
        flower17 natural 93.91  0.00 38.22 .5643
        flower17 madry   92.64 69.85 80.84 .8414
        flower17 art     93.21 33.08 79.84 .8487
        flower17 erar    90.31 74.26 95.50 .9770""",
    "gtsrb-wrn": """
        gtsrb natural 99.43 19.9  68.74 .7648
        gtsrb madry   98.36 87.49 86.13 .8842
        gtsrb art     98.47 84.66 91.96 .8934
        gtsrb erar    98.41 85.17 92.14 .9502""",
    "ablation-cacr": """
        flower17      erar-cacr-only 83.09 49.26 67.95 .8012
        fashion-mnist erar-cacr-only 85.43 71.25 78.77 .6974
        mnist         erar-cacr-only 98.35 88.66 76.62 .3203""",
    "ablation-wacr": """
        flower17      erar-wacr-only 82.35 50.00 68.41 .8065
        fashion-mnist erar-wacr-only 85.44 71.32 79.11 .7000
        mnist         erar-wacr-only 98.37 88.78 77.88 .3217""",
    "coefficients-wacr": """
        flower17      erar-1-0.7 82.47 50.97 69.04 .8101
        fashion-mnist erar-1-0.7 85.45 71.56 80.19 .7138
        mnist         erar-1-0.7 98.39 89.61 79.18 .3337""",
    "coefficients-cacr": """
        flower17      erar-0.7-1 82.44 50.81 68.63 .8087
        fashion-mnist erar-0.7-1 85.44 71.43 79.86 .7091
        mnist         erar-0.7-1 98.43 89.59 78.83 .3283""",
    "no-base": """
        flower17      erar-no-base 82.35 50.74 68.71 .8089
        fashion-mnist erar-no-base 85.43 71.38 79.89 .7023
        mnist         erar-no-base 98.41 89.53 79.00 .3315""",
}

# dataset: madry, rar, erar
_QUALITY = (
    "flower17 .7234 .8015 .9004, fashion-mnist .7897 .8634 .9289, mnist .9826 .9928 .9957, gtsrb .8154 .8714 .9368"
)
_HUMAN = "mnist .30 .30 .40, fashion-mnist .20 .40 .40, gtsrb .20 .30 .50, flower17 .00 .30 .70"
# method: flower, gtsrb
_SPEARMAN = "natural .7413 .9133, madry .9613 .9770, art .9627 .9801, erar .9959 .9938"


@cache
def paper_values() -> tuple[PaperValue, ...]:
    """All published numbers."""
    quality = _by_method("quality", "natural_spearman", _QUALITY)
    human = _by_method("human", "votes", _HUMAN)
    return (*_main_tables(), *quality, *human, *_spearman_table())


def paper_value(*, dataset: str, method: str, metric: str, network: str = "") -> PaperValue | None:
    """The published number for our names, or None; any `network` other than the wide ResNet means the small network.

    >>> paper_value(dataset="mnist", method="erar", metric="kendall").value
    0.3494
    """
    name = method.lower().replace("_", "-")
    wanted = (DATASETS.get(dataset.lower(), dataset.lower()), WIDE if is_wide(network) else SMALL)
    return _index().get((*wanted, METHODS.get(name, name), metric))


@cache
def _index() -> dict[tuple[str, str, str, str], PaperValue]:
    return {(v.dataset, v.network, v.method, v.metric): v for v in paper_values()}


def _main_tables() -> list[PaperValue]:
    found = []
    for table, text in _MAIN.items():
        network = WIDE if table.endswith("-wrn") else SMALL
        for dataset, method, *numbers in (line.split() for line in text.strip().splitlines()):
            natural, pgd, top_k = (round(float(number) / 100, 6) for number in numbers[:3])
            values = {"natural_accuracy": natural, "pgd_accuracy": pgd, "top_k": top_k, "kendall": float(numbers[3])}
            found += [
                PaperValue(table=table, dataset=dataset, network=network, method=method, metric=metric, value=value)
                for metric, value in values.items()
            ]
    return found


def _by_method(table: str, metric: str, text: str) -> list[PaperValue]:
    """Parse a table with one row per dataset and the columns madry, rar, erar."""
    return [
        PaperValue(table=table, dataset=dataset, network=SMALL, method=method, metric=metric, value=float(number))
        for dataset, *numbers in (row.split() for row in text.split(","))
        for method, number in zip(("madry", "rar", "erar"), numbers, strict=True)
    ]


def _spearman_table() -> list[PaperValue]:
    return [
        PaperValue(
            table="spearman", dataset=dataset, network=WIDE, method=method, metric="spearman", value=float(number)
        )
        for method, *numbers in (row.split() for row in _SPEARMAN.split(","))
        for dataset, number in zip(("flower17", "gtsrb"), numbers, strict=True)
    ]
