"""The commands `holdfast presets`, `holdfast presets show NAME` and `holdfast presets diff A B`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def list_presets(dataset: str = "", /) -> None:
    """List the presets: the methods of each dataset, with steps x batch size for each tier.

    A preset is named dataset/method[:tier]. Without a tier, the leftmost tier in the row of the method is used.

    Usage examples:
        holdfast presets        # all datasets
        holdfast presets mnist  # one dataset

    Args:
        dataset: Show only this dataset.
    """
    from rich.console import Console

    from holdfast.config.presets import DATASETS, TIERS
    from holdfast.config.problems import nearest
    from holdfast.errors import expected

    if dataset and dataset not in DATASETS:
        fix = f"the nearest is {nearest(dataset, DATASETS)}"
        raise expected(f"a dataset with presets ({', '.join(DATASETS)})", got=repr(dataset), fix=fix)
    console = Console()
    for name in [dataset] if dataset else DATASETS:
        console.print(_table(name, console.width), crop=False, soft_wrap=True)
    for tier, meaning in TIERS.items():
        console.print(f"{tier}: {meaning}", highlight=False)


def show_preset(name: str, /) -> None:
    """Print the complete config of a preset as TOML.

    Save the output to a file, edit it and pass it to `holdfast train --config FILE`.

    Usage examples:
        holdfast presets show mnist/erar:cpu
        holdfast presets show mnist/erar:cpu > my.toml

    Args:
        name: Name of the preset, dataset/method[:tier].
    """
    from holdfast.config import config_text, load_preset

    print(config_text(load_preset(name)), end="")


def diff_presets(a: str, b: str, /) -> None:
    """Compare two presets: print every config key with different values.

    Usage examples:
        holdfast presets diff mnist/erar:paper mnist/erar:cpu
        holdfast presets diff mnist/madry:cpu mnist/erar:cpu

    Args:
        a: Name of the first preset, dataset/method[:tier].
        b: Name of the second preset.
    """
    from rich.console import Console
    from rich.table import Column, Table

    from holdfast.config import differences, load_preset

    one, two = load_preset(a), load_preset(b)
    changed = differences(one.plain(), two.plain())
    changed.pop("preset", None)
    table = Table("key", Column(one.preset, overflow="fold"), Column(two.preset, overflow="fold"), box=None)
    for key, (before, after) in changed.items():
        table.add_row(key, _shown(before), _shown(after))
    Console().print(table if changed else f"{one.preset} and {two.preset} have the same settings", highlight=False)


def _table(dataset: str, room: int) -> "Table":
    """One row per method, one column per tier of the dataset; where there is no room, sizes fold, but never names."""
    from rich.table import Column, Table

    from holdfast.config.presets import TIERS, load_preset, preset_names

    names = [name for name in preset_names() if name.partition("/")[0] == dataset]
    methods = list(dict.fromkeys(name.partition(":")[0] for name in names))
    tiers = [tier for tier in TIERS if any(name.endswith(f":{tier}") for name in names)]
    columns = [
        [f":{tier}", *(_size(load_preset(name).train) if name in names else "-" for name in full)]
        for tier in tiers
        for full in [[f"{method}:{tier}" for method in methods]]
    ]
    first = max(map(len, methods))
    gap = 2 if first + _taken(_widths(columns, 0, 2), 2) <= room else 1
    widths = _widths(columns, room - first, gap)
    heads = (Column(column[0], width=width) for column, width in zip(columns, widths, strict=True))
    look: dict[str, Any] = {"box": None, "title_justify": "left", "padding": (0, gap, 0, 0), "pad_edge": False}
    table = Table(Column("preset", width=first), *heads, title=dataset, width=first + _taken(widths, gap), **look)
    for row in zip(methods, *(column[1:] for column in columns), strict=True):
        table.add_row(*row)
    return table


def _taken(widths: list[int], gap: int) -> int:
    """What columns take right of the first one, with a gap before each."""
    return sum(widths) + gap * len(widths)


def _widths(columns: list[list[str]], room: int, gap: int) -> list[int]:
    """Widths of columns, each a header and its cells: the header fits, cells may fold between words; the last first.

    >>> _widths([[":released-code", "90,000 x 50"], [":cpu", "2,600 x 50"]], 30, 2)
    [14, 10]
    >>> _widths([[":released-code", "90,000 x 50"], [":cpu", "2,600 x 50"]], 23, 2)
    [14, 5]
    """
    widths = [max(len(column[0]), *(len(word) for cell in column for word in cell.split())) for column in columns]
    for at in reversed(range(len(columns))):
        spare = max(0, room - _taken(widths, gap))
        widths[at] += min(spare, max(map(len, columns[at])) - widths[at])
    return widths


def _size(train: Any) -> str:
    return f"{train.steps:,} x {train.batch_size}"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
