"""A network of the zoo as a job: its run directory is made from the zoo's config and weights, and then measured."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.experiment.jobs import Job
from holdfast.experiment.layout import CONFIG, WEIGHTS
from holdfast.storage.files import write_file
from holdfast.storage.json_files import write_text_atomic
from holdfast.zoo.index import find
from holdfast.zoo.weights import fetch

if TYPE_CHECKING:
    from holdfast.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class ZooJob(Job):
    """Measure a network that is already trained: `preset` is its name, `zoo:DATASET/METHOD`.

    `changes` are overrides of the config in the zoo, such as other images or fewer passes.
    """

    def config(self) -> "RunConfig":
        """The config of the zoo with the changes applied."""
        from holdfast.config import make_config

        return make_config(file=find(self.preset).folder / CONFIG, overrides=self.changes)

    def prepare(self) -> None:
        """Write config and weights into the run directory, unless they are there."""
        from holdfast.config import config_text

        self.check()
        if self.trained:
            return
        write_text_atomic(self.folder / CONFIG, config_text(self.config()))
        write_file(self.folder / WEIGHTS, fetch(self.preset).read_bytes())
