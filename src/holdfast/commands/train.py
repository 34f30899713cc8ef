"""The command `holdfast train`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Suppress, arg

from holdfast.commands.processes import leads, program

Overrides = tuple[tuple[str, str], ...]


def train(
    preset: Annotated[str, arg(metavar="PRESET")] = "",
    /,
    config: Path | None = None,
    out: Path | None = None,
    resume: bool = False,
    init: Path | None = None,
    model: str | None = None,
    model_args: tuple[str, ...] = (),
    data: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    quiet: bool = False,
    overrides: Suppress[Overrides] = (),
) -> None:
    """Train a network for robust explanations and write it to a run directory.

    The run directory holds the config, the log, the checkpoints and the weights. Start from a preset such as
    digits/erar; `holdfast presets` lists all presets.

    Usage examples:
        holdfast train digits/erar                                    # about a minute, no download
        holdfast train mnist/erar:cpu --train.steps 500 --out runs/a  # another tier, one setting changed
        holdfast train mnist/madry:cpu --method.settings.eps 0.2 --seed 1
        holdfast train mnist/erar:cpu --init w.safetensors            # fine-tune a trained network
        # your own network, weights and images; a fifth of the images is held out for testing
        holdfast train gtsrb/erar:cpu --model package.module:build --model-args width=2 --init w.pt \\
            --data images/ --data.options.holdout 0.2
        holdfast train gtsrb/erar:cpu --model timm:resnet18 --data images/ --data.options.size 64
        holdfast train --config runs/a/config.toml --out runs/b       # repeat a run
        holdfast train --out runs/a --resume                          # resume after Ctrl-C or a crash
        torchrun --nproc-per-node 2 -m holdfast train mnist/erar      # full setting; several processes or GPUs

    Any key of the config can be set with --section.key VALUE; the value `none` removes a key. If you change
    --method.settings.eps, the step sizes and the radius of the evaluation are scaled by the same factor, unless you set
    them, too. The sections are data, model (with model.options), method (with method.settings), train (with
    train.schedule) and evaluate (with evaluate.pgd, evaluate.ifia and evaluate.ensemble). `holdfast presets show NAME`
    prints all keys of a preset.

    Args:
        preset: Preset to train: dataset/method[:tier], as listed by `holdfast presets`. Without a tier, the first that
            exists of paper, released-code, rar-config and cpu: mnist/erar is the full setting of the paper,
            mnist/erar:cpu the short version for two cores.
        config: Config file to use instead of a preset; with `base = "dataset/method:tier"` it holds only the changes.
        out: Run directory; by default runs/<dataset>/<method>[-seedN], or runs/<tier>/... if the tier is not cpu. With
            --data or --model, <dataset> is the name of that data or network.
        resume: Resume the run in the run directory; the result equals that of an uninterrupted run.
        init: Initial weights: a run directory or a file, .safetensors or .pt, .pth, .th, .ckpt, .bin of torch.save
            (train.init).
        model: Network: a registered name, package.module:function that builds your own, timm:NAME, torchvision:NAME, or
            hf:FOLDER (model.name).
        model_args: Arguments of the function that builds the network, as key=value (model.options).
        data: Images: the name of a dataset, a folder with one subfolder per class, or an .npz file (data.name).
        seed: Seed of the initial weights, of the order of the batches and of the noise of the attacks.
        device: Device such as cpu or cuda; auto uses the GPU if there is one (train.device).
        quiet: Do not show the progress line.
    """
    fixed = {"train.init": init, "model.name": model, "data.name": data, "seed": seed, "train.device": device}
    changes = [(key, str(value)) for key, value in fixed.items() if value is not None]
    changes += [(f"model.{'' if key in _SHAPE else 'options.'}{key}", text) for key, text in _pairs(model_args)]
    changes += [(key, text) for key, text in overrides]
    from holdfast.config import changes_of_file, radius_notes
    from holdfast.experiment.layout import has_checkpoint
    from holdfast.runs.folders import check_not_measured
    from holdfast.training import joined, pick_device

    folder = out or _default_folder(preset, config, seed or 0, resume, _own_name(preset, model, data))
    check_not_measured(folder)  # before the runs that this one starts from are trained
    settings = _config(preset, config, folder, resume, changes)
    in_file = () if config is None else changes_of_file(config)
    for note in () if resume else radius_notes(settings, changes, in_file):
        _say(f"note: {note}", sys.stdout)
    with joined(pick_device(settings.train.device)):  # one process group for all runs
        if not (resume and has_checkpoint(folder)):
            _train_starts(settings, folder, quiet, _for_starts(changes))
        _run(settings, folder, resume, quiet)


train.takes_overrides = True  # type: ignore[attr-defined]  # cli.py passes it the options --section.key VALUE


_SHAPE = ("num_classes", "in_channels", "image_size")
"""Arguments of a builder that are keys of [model] themselves."""


def _pairs(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """The arguments `key=value` as pairs of text."""
    from holdfast.config import parse_arguments

    parse_arguments(words)  # refuses what is not key=value
    return [(word.partition("=")[0], word.partition("=")[2]) for word in words]


def _config(preset: str, file: Path | None, folder: Path, resume: bool, changes: list[tuple[str, str]]) -> Any:
    from holdfast.config import make_config

    if resume and not preset and file is None:
        file = folder / "config.toml"
    return make_config(preset, file=file, overrides=changes)


_FOR_STARTS_TOO = ("seed", "train.device", "data.root")
"""Overrides that also apply to the runs that a run is initialised from; with another network or data, those, too."""


def _for_starts(changes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    own = any(key in ("model.name", "data.name") for key, _ in changes)
    return [(k, v) for k, v in changes if k in _FOR_STARTS_TOO or (own and k.startswith(("model.", "data.")))]


def _train_starts(config: Any, folder: Path, quiet: bool, changes: list[tuple[str, str]]) -> None:
    """Train the missing runs that this one is initialised from, and print a line for each."""
    from holdfast.experiment import run

    for preset, start in run.missing_starts(config, folder, changes):
        _say(f"{config.preset or folder} starts from {preset}, missing at {start}; training it first", sys.stdout)
        _run(run.make_start_config(preset, changes), start, (start / "config.toml").exists(), quiet)


def _run(config: Any, folder: Path, resume: bool, quiet: bool) -> None:
    from holdfast.experiment.run import run_training
    from holdfast.training import Interrupted

    try:
        run = run_training(config, folder, resume=resume, progress=not quiet, resume_command=_resume_command(folder))
    except Interrupted as stop:
        _say(f"holdfast: {stop}", sys.stderr)
        raise SystemExit(130) from None
    cost = f"{run.result.step:,} steps, {run.result.seconds:,.0f} s, {run.result.example_passes:,} example-passes"
    _say(f"wrote {folder}: {cost}", sys.stdout)
    own = ["--model", config.model.name] if ":" in config.model.name else []  # never imported automatically
    _say(f"next: {shlex.join(['holdfast', 'evaluate', str(folder), *own])}", sys.stdout)


def _own_name(preset: str, model: str | None, data: str | None) -> str:
    """Folder name for runs with custom data or another network, to keep them apart from the runs of the preset."""
    if data is not None:
        return Path(data).stem
    if model is None:
        return ""
    return f"{preset.partition('/')[0]}-{model.rpartition(':')[2]}"


def _default_folder(preset: str, file: Path | None, seed: int, resume: bool, own: str) -> Path:
    from holdfast.config import find_preset, run_name
    from holdfast.errors import expected
    from holdfast.experiment.layout import run_folder

    if preset and own:
        return Path("runs") / own / run_name(find_preset(preset).partition("/")[2].partition(":")[0], seed)
    if preset:
        before = Path("runs") / preset.replace("/", "-").replace(":", "-")  # the default folder of version 0.1
        return before if resume and before.is_dir() else run_folder(find_preset(preset), seed)
    if file is None:
        fix = "try: holdfast train digits/erar"
        raise expected("a preset, --config FILE or --out RUN --resume", got="none", fix=fix)
    return Path("runs") / file.stem


def _resume_command(folder: Path) -> str:
    return f"{program()} train --out {shlex.quote(str(folder))} --resume"


def _say(text: str, stream: Any) -> None:
    """Print from the process of rank 0 only."""
    if leads():
        print(text, file=stream)
