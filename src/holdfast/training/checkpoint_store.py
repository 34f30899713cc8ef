"""The checkpoints of one run: the last two, in case one is damaged, and the best.

A checkpoint exists once its folder has its final name. Older checkpoints are deleted only after that, so a complete
checkpoint exists whenever a process dies.
"""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from holdfast.errors import DataError
from holdfast.storage.files import discard, sweep, write_file
from holdfast.training.checkpoint import WEIGHTS, Snapshot, pack, read_checkpoint, write_checkpoint

Kind = Literal["step", "best"]
KEEP: dict[Kind, int] = {"step": 2, "best": 1}


class RecoveryWarning(UserWarning):
    """A damaged checkpoint was skipped, and the previous one was loaded."""


@dataclass(frozen=True)
class CheckpointStore:
    """Checkpoints in `run_dir/checkpoints`, named by the steps done: `step-00000120` and `best-00000080`."""

    run_dir: Path

    @property
    def folder(self) -> Path:
        return self.run_dir / "checkpoints"

    def found(self, kind: Kind = "step") -> list[Path]:
        """Folders of the existing checkpoints, newest first."""
        names = re.compile(kind + r"-\d{8,}")
        paths = [path for path in self.folder.glob(kind + "-*") if names.fullmatch(path.name)]
        return sorted(paths, key=_steps, reverse=True)

    def clean(self) -> None:
        """Delete unfinished and outdated checkpoints of a killed process. Only the owner of the lock may call it."""
        for folder in (self.folder, self.run_dir):
            sweep(folder)
        for kind in KEEP:
            self._prune(kind)

    def save(self, snapshot: Snapshot, kind: Kind = "step") -> Path:
        """Write a checkpoint, then delete those it replaces."""
        path = self.folder / f"{kind}-{snapshot.step:08d}"
        write_checkpoint(path, snapshot)
        self._prune(kind)
        return path

    def load(self) -> Snapshot | None:
        """The newest intact checkpoint, or None if the run has none yet; warns if a damaged one was skipped."""
        damaged = ""
        for path in self.found("step"):
            try:
                snapshot = read_checkpoint(path)
            except DataError as error:
                damaged = damaged or str(error)
                continue
            if damaged:
                text = f"{damaged} Resuming from the previous checkpoint, {path}."
                warnings.warn(text, RecoveryWarning, stacklevel=2)
            return snapshot
        if damaged:
            fix = "no other checkpoint is left; delete the run directory to start again"
            raise DataError(f"{damaged.rstrip('.')}; {fix}.")
        return None

    def _prune(self, kind: Kind) -> None:
        for old in self.found(kind)[KEEP[kind] :]:
            discard(old)

    def forget_after(self, step: int) -> None:
        """Delete the checkpoints beyond `step`: damaged ones, which the run will write again."""
        for path in self.found("step"):
            if _steps(path) > step:
                discard(path)

    def export(self, *, half: bool = False) -> None:
        """Write the final weights, the best if any were kept, else the last, to `run_dir/weights.safetensors`."""
        chosen = [*self.found("best"), *self.found("step")][0]
        weights = read_checkpoint(chosen).weights
        if half:  # half the size for publishing; the evaluation loads these published weights
            weights = {name: w.half() if w.is_floating_point() else w for name, w in weights.items()}
        write_file(self.run_dir / WEIGHTS, pack(weights))


def load_weights(run_dir: Path | str, which: Literal["best", "last"] | None = None) -> dict[str, Tensor]:
    """Verified weights of a finished or unfinished run: the best or the last; by default the best if any were kept."""
    store = CheckpointStore(Path(run_dir))
    best = store.found("best")
    if which == "best" or (which is None and best):
        if not best:
            raise DataError(f"{store.folder} holds no best checkpoint; train with keep_best_by or request the last.")
        return dict(read_checkpoint(best[0]).weights)
    snapshot = store.load()
    if snapshot is None:
        raise DataError(f"{store.folder} holds no checkpoint; train a model into {run_dir} first.")
    return dict(snapshot.weights)


def _steps(path: Path) -> int:
    return int(path.name.split("-")[1])
