"""The strict config of a run, the presets, and changes from the command line. No PyTorch at import."""

from holdfast.config.files import changes_of_file, config_from_file, config_text, make_config
from holdfast.config.merge import differences, merge
from holdfast.config.methods import complete
from holdfast.config.overrides import Override, apply_overrides, parse_arguments, split_overrides
from holdfast.config.presets import TIERS, find_preset, load_preset, preset_names, preset_values, run_name
from holdfast.config.radius import large_steps, radius_notes
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
from holdfast.config.values import check_eps, index_or_key, parse_number

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
    "changes_of_file",
    "check_eps",
    "complete",
    "config_from_file",
    "config_text",
    "differences",
    "find_preset",
    "index_or_key",
    "large_steps",
    "load_preset",
    "make_config",
    "merge",
    "parse_arguments",
    "parse_number",
    "preset_names",
    "preset_values",
    "radius_notes",
    "run_name",
    "split_overrides",
]
