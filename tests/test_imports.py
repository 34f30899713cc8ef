"""What is loaded when: nothing heavy for `import holdfast`, no PyTorch for the help, no compiler for the maps."""

import json
import subprocess
import sys

import holdfast

HEAVY = ("torch", "matplotlib", "sklearn", "scipy", "pydantic", "jinja2", "PIL", "rich")


def loaded_after(code: str) -> set[str]:
    """Top-level and second-level names of all modules loaded by `code` in a fresh interpreter."""
    script = f"import sys, json\n{code}\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_is_light() -> None:
    assert not loaded_after("import holdfast").intersection(HEAVY)


def test_help_needs_no_torch() -> None:
    for words in (["--help"], ["--version"], ["data", "--help"]):
        assert not loaded_after(f"from holdfast.cli import main\nassert main({words!r}) == 0").intersection(HEAVY)


def test_command_help_needs_no_torch() -> None:
    code = """
from holdfast.cli import main, COMMANDS
for name in COMMANDS:
    try:
        main([*name.split(), "--help"])
    except SystemExit as stop:
        assert not stop.code, name
"""
    assert not loaded_after(code).intersection({"torch", "matplotlib", "sklearn", "scipy"})


def test_torch_users_pay_for_torch_only() -> None:
    only_torch = loaded_after("import torch")
    with_maps = loaded_after("import holdfast as hf\nhf.IntegratedGradients, hf.metrics, hf.models.build, hf.data.load")
    extra = {name.split(".")[0] for name in with_maps - only_torch}
    assert not extra.intersection({"matplotlib", "sklearn", "scipy"})
    compiler = {"torch._dynamo.eval_frame", "torch._inductor", "torch._functorch._aot_autograd"}
    assert not (with_maps - only_torch).intersection(compiler)


def test_every_public_name_is_there() -> None:
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert set(holdfast.__all__) <= set(dir(holdfast))
