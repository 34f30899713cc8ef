"""Data flows one way: a module imports only from strictly lower layers. Read from the syntax tree, nothing is run."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# Low to high. Modules of one row do not import each other. A package (`holdfast.data`) stands for its __init__.
LAYERS = (
    "errors",
    "types ops rng meter files seals pools",
    "ranks",
    "checks balls metrics",
    "results.files results.bootstrap results.provenance",
    "results.lines results.panels",
    "results.examples results.training_log",
    "results.conventions results.run",
    "results.summary results.difference results.worst",
    "results",
    "config.values config.merge config.toml config.problems",
    "config.schema",
    "config.overrides config.presets",
    "config.files",
    "data.archives data.arrays data.idx data.images data.npz_file data.splits data.subsets",
    "data.cache data.dataset",
    "data.balance data.download data.equalize data.loader data.own_folder data.own_npz",
    "data.sources data.transforms",
    "data.spec",
    "data.digits data.flower17 data.gtsrb data.mnist data.obtain",
    "data.registry",
    "data.loading",
    "data",
    "models.initialize models.standardize models.digits_cnn models.classifier models.modes models.surrogate",
    "models.lean",
    "models.scale",
    "models.paper_cnn models.paper_resnet models.wide_resnet models.double_backward",
    "models.registry",
    "models",
    "side_by_side",
    "attribution.scores attribution.quadrature attribution.maps attribution.engine",
    "attribution.gradients attribution.integrated",
    "attribution",
    "losses.scene",
    "losses.base",
    "losses.prediction losses.quiet losses.maps losses.change losses.alignment",
    "losses.contrast",
    "losses",
    "attacks.batch",
    "attacks.pgd",
    "attacks.explanation attacks.manipulation",
    "attacks.ensemble attacks.diagnostics",
    "attacks",
    "sliced",
    "objective",
    "recipes.attacks recipes.methods",
    "recipes",
    "config.methods",
    "config",
    "training.protocols training.schedules training.optimizers training.sealed training.lock training.signals",
    "training.guards training.progress",
    "training.checkpoint training.logbook training.settings training.distributed",
    "training.keeper training.state training.board training.engine",
    "training.outputs",
    "training.session",
    "training.loop",
    "training",
    "evaluation.accuracy evaluation.quality evaluation.identity",
    "evaluation.plan",
    "evaluation",
    "experiment auditing bench.timing bench.work bench.plain",
    "bench.cases",
    "bench.machine",
    "bench",
    "measure",
    "jobs",
    "tables",
    "report.document report.paper_values report.page",
    "report.view",
    "report.compare report.pictures",
    "report.tables report.payload",
    "report.more_tables report.render report.charts report.vote",
    "report.sections report.figures",
    "report.html",
    "report.write",
    "report",
    "process",
    "commands commands.data commands.report commands.train commands.presets commands.progress commands.bench",
    "commands.evaluate",
    "commands.audit commands.demo commands.reproduce",
    "cli",
    "__main__",
)
LAYER_OF = {f"holdfast.{name}": level for level, names in enumerate(LAYERS) for name in names.split()}
LAYER_OF["holdfast"] = 0  # the package itself loads its names on first use and may be imported by anyone


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(path: Path) -> set[str]:
    """Every holdfast module that a file imports, at its top or inside a function, but not for type checking only."""
    tree = ast.parse(path.read_text())
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            # `from holdfast import rng` imports holdfast.rng; `from holdfast.rng import mix` imports holdfast.rng
            found |= {
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in MODULES else node.module for a in node.names
            }
    return {name for name in found if name.split(".")[0] == "holdfast"}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    assert module in LAYER_OF, f"give {module} a row in LAYERS"
    for name in imported(MODULES[module]):
        assert LAYER_OF[name] < LAYER_OF[module], f"{module} imports {name}, which is not below it"


def test_every_row_exists() -> None:
    assert set(LAYER_OF) == set(MODULES)


def test_no_star_imports() -> None:
    for path in MODULES.values():
        stars = [
            n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"
        ]
        assert not stars, path
