"""Checks of output folders: rows of an audit and the files of a training run stay apart."""

from pathlib import Path

from holdfast.errors import expected

CONFIG, MEASURED = "config.toml", "measured.json"


def check_not_training_run(folder: Path, purpose: str = "audit") -> None:
    """Refuse a folder with a training run or weights as the output folder of something else, which would mix them."""
    weights = next((path.name for path in sorted(folder.glob("weights.*"))), None)
    held = "a training run" if (folder / CONFIG).exists() else weights
    if held is not None:
        fix = f"choose another folder, for example {folder}-{purpose}"
        raise expected(f"an output folder of its own for the {purpose}", got=f"{folder}, which holds {held}", fix=fix)


def check_not_measured(folder: Path) -> None:
    """Refuse a folder with the rows of an audit or of an evaluation as that of a new training run."""
    if (folder / MEASURED).exists() and not (folder / CONFIG).exists():
        fix = f"choose another folder, for example {folder}-train"
        held = f"{folder}, which holds the rows of an audit or an evaluation"
        raise expected("an output folder of its own for the training", got=held, fix=fix)
