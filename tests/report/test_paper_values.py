"""The published numbers, against the paper's own consistency and a few read off by eye."""

import pytest

from holdfast.report.paper_values import TITLES, paper_value, paper_values


def test_every_table_is_there_and_complete() -> None:
    counts = {table: sum(v.table == table for v in paper_values()) for table in TITLES}
    main = dict.fromkeys(["flower17", "fashion-mnist", "mnist", "gtsrb", "flower17-wrn", "gtsrb-wrn"], 16)
    ablations = ["ablation-cacr", "ablation-wacr", "coefficients-wacr", "coefficients-cacr", "no-base"]
    assert counts == main | dict.fromkeys(ablations, 12) | {"quality": 12, "spearman": 8, "human": 12}


def test_all_values_are_fractions_and_none_stands_twice() -> None:
    values = paper_values()
    assert all(0 <= v.value <= 1 for v in values)
    keys = [(v.dataset, v.network, v.method, v.metric) for v in values]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("dataset", "method", "metric", "network", "value"),
    [
        ("mnist", "erar", "top_k", "", 0.81),
        ("mnist", "ig_sum_norm", "kendall", "", 0.3111),
        ("fmnist", "madry", "pgd_accuracy", "", 0.7301),
        ("flower17", "ART", "top_k", "wrn-28-10", 0.7984),
        ("gtsrb", "natural", "pgd_accuracy", "wrn-28-10", 0.199),
        ("gtsrb", "erar", "spearman", "WRN-28-10", 0.9938),
        ("gtsrb", "madry", "top_k", "wrn-16-2", 0.8613),
        ("gtsrb", "madry", "top_k", "paper-resnet", 0.6885),
        ("flower", "erar-no-base", "kendall", "paper-resnet", 0.8089),
        ("gtsrb", "rar", "natural_spearman", "", 0.8714),
    ],
)
def test_values_read_off_the_paper(dataset: str, method: str, metric: str, network: str, value: float) -> None:
    found = paper_value(dataset=dataset, method=method, metric=metric, network=network)
    assert found is not None
    assert found.value == value


def test_what_the_paper_does_not_say_is_none() -> None:
    assert paper_value(dataset="digits", method="erar", metric="top_k") is None
    assert paper_value(dataset="mnist", method="erar_plus", metric="top_k") is None


def test_flower_accuracies_are_multiples_of_one_in_136() -> None:
    shares = [v.value for v in paper_values() if v.table == "flower17" and v.metric.endswith("accuracy")]
    assert all(abs(share * 136 - round(share * 136)) < 0.01 for share in shares)
