"""File names in a run directory, and the naming rule for run directories. Does not import PyTorch."""

from pathlib import Path

from holdfast.config import RunConfig, preset_names, run_name

CONFIG, PROVENANCE, WEIGHTS = "config.toml", "provenance.json", "weights.safetensors"
SUMMARY, LOG, EXAMPLES, CHECKPOINTS = "summary.json", "log.jsonl", "examples.csv", "checkpoints"
ACCURACY = "accuracy.csv"


def dataset_folder(out: Path, tier: str, dataset: str) -> Path:
    """The folder of the runs of a dataset; every tier except cpu has its own, so that results stay separate."""
    return out / dataset if tier == "cpu" else out / tier / dataset


def run_folder(preset: str, seed: int = 0, out: Path = Path("runs")) -> Path:
    """The run directory of a preset: OUT/dataset/method[-seedN], or OUT/tier/dataset/... unless the tier is cpu.

    >>> run_folder("mnist/erar:cpu", seed=1).as_posix(), run_folder("mnist/erar:paper").as_posix()
    ('runs/mnist/erar-seed1', 'runs/paper/mnist/erar')
    """
    dataset, _, rest = preset.partition("/")
    method, _, tier = rest.partition(":")
    return dataset_folder(out, tier, dataset) / run_name(method, seed)


def start_preset(config: RunConfig) -> str | None:
    """The preset of the run that `train.init` names by its method, None if there is no such preset."""
    dataset, _, method = config.preset.partition("/")
    preset = f"{dataset}/{config.train.init}:{method.partition(':')[2]}"
    return preset if config.train.init and preset in preset_names() else None


def has_checkpoint(folder: Path) -> bool:
    """Whether training has a checkpoint to resume from, so that the initial weights are no longer needed."""
    return any((folder / CHECKPOINTS).glob("step-*"))
