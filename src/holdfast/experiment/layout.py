"""Where the files of a run lie, and the one rule by which run folders are named. No PyTorch."""

from pathlib import Path

from holdfast.config import run_name

CONFIG, PROVENANCE, WEIGHTS = "config.toml", "provenance.json", "weights.safetensors"
SUMMARY, LOG, EXAMPLES, CHECKPOINTS = "summary.json", "log.jsonl", "examples.csv", "checkpoints"


def dataset_folder(out: Path, tier: str, dataset: str) -> Path:
    """Where the runs of a dataset go; every tier but cpu has its own folder, so that results are not mixed up."""
    return out / dataset if tier == "cpu" else out / tier / dataset


def run_folder(preset: str, seed: int = 0, out: Path = Path("runs")) -> Path:
    """The folder of a preset's run: OUT/dataset/method[-seedN], with the tier in front unless it is cpu.

    >>> run_folder("mnist/erar:cpu", seed=1).as_posix(), run_folder("mnist/erar:paper").as_posix()
    ('runs/mnist/erar-seed1', 'runs/paper/mnist/erar')
    """
    dataset, _, rest = preset.partition("/")
    method, _, tier = rest.partition(":")
    return dataset_folder(out, tier, dataset) / run_name(method, seed)


def has_checkpoint(folder: Path) -> bool:
    """Whether training has a checkpoint to go on from, so that no other weights are needed."""
    return any((folder / CHECKPOINTS).glob("step-*"))
