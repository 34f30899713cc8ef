"""The command `holdfast train`."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Suppress, arg

Overrides = tuple[tuple[str, str], ...]


def train(
    preset: Annotated[str, arg(metavar="PRESET")] = "",
    /,
    config: Path | None = None,
    out: Path | None = None,
    resume: bool = False,
    init: Path | None = None,
    model: str | None = None,
    data: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    quiet: bool = False,
    overrides: Suppress[Overrides] = (),
) -> None:
    """Train a network whose explanations hold, into a run directory with its config, log, checkpoints and weights.

        holdfast train digits/erar                                   a minute, no download; into runs/digits/erar
        holdfast train mnist/erar:cpu --train.steps 500 --out runs/a another tier, one setting changed
        holdfast train mnist/madry --method.settings.eps 0.2 --seed 1
        holdfast train mnist/erar:cpu --init w.safetensors           harden a network that is trained already
        holdfast train gtsrb/erar:cpu --model package.module:build --data images/ --data.options.holdout 0.2
        holdfast train --config runs/a/config.toml --out runs/b      the same run again
        holdfast train --out runs/a --resume                         go on after Ctrl-C or a crash
        torchrun --nproc-per-node 2 -m holdfast train mnist/erar     on many processes or GPUs

    Any key of the config can be changed with --section.key VALUE; `none` takes a key out. Sections: data, model (with
    model.options), method (with method.settings), train (with train.schedule), evaluate (with evaluate.pgd, .ifia and
    .ensemble). `holdfast presets` lists the presets, `holdfast presets show NAME` all keys of one.

    Args:
        preset: What to train: dataset/method[:tier], as `holdfast presets` lists them.
        config: A config file instead of a preset; with `base = "dataset/method:tier"` it only says what differs.
        out: The run directory to write; runs/<dataset>/<method>[-seed] if not given, with the tier before it unless
            that is cpu.
        resume: Go on with the run in the directory; it ends as if it had not been interrupted.
        init: Weights to start from: a .safetensors file or the folder of a run (train.init).
        model: The network: a registered name, or package.module:function that builds your own (model.name).
        data: The images: a dataset's name, a folder of class folders, or an .npz file (data.name).
        seed: Initialises the network, orders the batches, makes the noise of the attacks.
        device: cpu, cuda, ...; auto takes the GPU if there is one (train.device).
        quiet: No progress line.
    """
    fixed = {"train.init": init, "model.name": model, "data.name": data, "seed": seed, "train.device": device}
    changes = [(key, str(value)) for key, value in fixed.items() if value is not None]
    changes += [(key, text) for key, text in overrides]
    folder = out or _default_folder(preset, config, seed or 0, resume)
    settings = _config(preset, config, folder, resume, changes)
    if not (resume and any((folder / "checkpoints").glob("step-*"))):
        _train_starts(settings, folder, quiet, [change for change in changes if change[0] in _FOR_STARTS_TOO])
    _run(settings, folder, resume, quiet)


train.takes_overrides = True  # type: ignore[attr-defined]  # the command line gives it the words --section.key VALUE


def _config(preset: str, file: Path | None, folder: Path, resume: bool, changes: list[tuple[str, str]]) -> Any:
    from holdfast.config import make_config

    if resume and not preset and file is None:
        file = folder / "config.toml"
    return make_config(preset, file=file, overrides=changes)


_FOR_STARTS_TOO = ("seed", "train.device", "data.root")
"""What is also passed on to the runs that a run starts from."""


def _train_starts(config: Any, folder: Path, quiet: bool, changes: list[tuple[str, str]]) -> None:
    """Train the runs that this one starts from, where they are missing, after saying so."""
    from holdfast.experiment import run

    for preset, start in run.missing_starts(config, folder):
        _say(f"{config.preset or folder} starts from {preset}, which is not at {start}: training it first", sys.stdout)
        _run(run.make_start_config(preset, changes), start, (start / "config.toml").exists(), quiet)


def _run(config: Any, folder: Path, resume: bool, quiet: bool) -> None:
    from holdfast.experiment.run import run_training
    from holdfast.training import Interrupted

    try:
        run = run_training(config, folder, resume=resume, progress=not quiet, resume_command=_resume_command(folder))
    except Interrupted as stop:
        _say(f"holdfast: {stop}", sys.stderr)
        raise SystemExit(130) from None
    cost = f"{run.result.step:,} steps, {run.result.seconds:,.0f} s, {run.result.example_passes:,} example passes"
    _say(f"wrote {folder}: {cost}", sys.stdout)
    _say(f"next: holdfast evaluate {shlex.quote(str(folder))}", sys.stdout)


def _default_folder(preset: str, file: Path | None, seed: int, resume: bool) -> Path:
    from holdfast.config import find_preset
    from holdfast.errors import expected
    from holdfast.experiment.layout import run_folder

    if preset:
        before = Path("runs") / preset.replace("/", "-").replace(":", "-")  # where version 0.1 put it
        return before if resume and before.is_dir() else run_folder(find_preset(preset), seed)
    if file is None:
        fix = "try: holdfast train digits/erar"
        raise expected("a preset, --config FILE or --out RUN --resume", got="none", fix=fix)
    return Path("runs") / file.stem


def _resume_command(folder: Path) -> str:
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")
    start = "holdfast" if processes == "1" else f"torchrun --nproc-per-node {processes} -m holdfast"
    return f"{start} train --out {shlex.quote(str(folder))} --resume"


def _say(text: str, stream: Any) -> None:
    """One of many processes speaks for all."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=stream)
