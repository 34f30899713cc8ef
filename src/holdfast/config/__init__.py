"""The strict config of a run, the presets, and changes from the command line. No PyTorch at import."""

from holdfast.config.files import config_from_file, config_text, make_config
from holdfast.config.merge import differences, merge
from holdfast.config.methods import complete
from holdfast.config.overrides import Override, apply_overrides, split_overrides
from holdfast.config.presets import TIERS, find_preset, load_preset, preset_names, preset_values, run_name
from holdfast.config.schema import (
    Data,
    EnsembleProtocol,
    Evaluate,
    IFIAProtocol,
    Method,
    Network,
    PGDProtocol,
    RunConfig,
    Schedule,
    Train,
)

__all__ = [
    "TIERS",
    "Data",
    "EnsembleProtocol",
    "Evaluate",
    "IFIAProtocol",
    "Method",
    "Network",
    "Override",
    "PGDProtocol",
    "RunConfig",
    "Schedule",
    "Train",
    "apply_overrides",
    "complete",
    "config_from_file",
    "config_text",
    "differences",
    "find_preset",
    "load_preset",
    "make_config",
    "merge",
    "preset_names",
    "preset_values",
    "run_name",
    "split_overrides",
]
