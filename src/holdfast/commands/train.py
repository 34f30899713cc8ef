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

        holdfast train digits/erar                                   a minute, no download; into runs/digits-erar
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
        out: The run directory to write; runs/<preset> if not given.
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
    folder = out or _default_folder(preset, config)
    _run(_config(preset, config, folder, resume, changes), folder, resume, quiet)


train.takes_overrides = True  # type: ignore[attr-defined]  # the command line gives it the words --section.key VALUE


def _config(preset: str, file: Path | None, folder: Path, resume: bool, changes: list[tuple[str, str]]) -> Any:
    from holdfast.config import make_config

    if resume and not preset and file is None:
        file = folder / "config.toml"
    return make_config(preset, file=file, overrides=changes)


def _run(config: Any, folder: Path, resume: bool, quiet: bool) -> None:
    from holdfast.experiment import run_training
    from holdfast.training import Interrupted

    try:
        run = run_training(config, folder, resume=resume, progress=not quiet, resume_command=_resume_command(folder))
    except Interrupted as stop:
        _say(f"holdfast: {stop}", sys.stderr)
        raise SystemExit(130) from None
    cost = f"{run.result.step:,} steps, {run.result.seconds:,.0f} s, {run.result.example_passes:,} example passes"
    _say(f"wrote {folder}: {cost}", sys.stdout)
    _say(f"next: holdfast evaluate {shlex.quote(str(folder))}", sys.stdout)


def _default_folder(preset: str, file: Path | None) -> Path:
    from holdfast.errors import expected

    if not preset and file is None:
        raise expected(
            "a preset, --config FILE or --out RUN --resume", got="none", fix="try: holdfast train digits/erar"
        )
    return Path("runs") / (preset.replace("/", "-").replace(":", "-") if preset or file is None else file.stem)


def _resume_command(folder: Path) -> str:
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")
    start = "holdfast" if processes == "1" else f"torchrun --nproc-per-node {processes} -m holdfast"
    return f"{start} train --out {shlex.quote(str(folder))} --resume"


def _say(text: str, stream: Any) -> None:
    """One of many processes speaks for all."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=stream)
