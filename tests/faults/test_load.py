"""Many images and many classes in bounded memory; the report of many runs is tested in tests/report/test_browser.py.

`make test` takes 3,000 images, `make test-long` 60,000.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.load, pytest.mark.timeout(3600)]

LONG = bool(os.environ.get("HOLDFAST_LONG"))
FEW, MANY = 1_000, 60_000 if LONG else 3_000

# In a process of its own, whose peak is that of this evaluation. The network has 1,000 classes and hardly any weights.
SCRIPT = """
import resource, sys, tempfile
import torch
from torch import nn
import holdfast as hf
from holdfast.data.dataset import Dataset
from holdfast.evaluation import EvaluationProtocol, evaluate

n = int(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(0)
net = hf.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Softplus(), nn.Linear(4, 1000))).eval()
x = torch.randint(0, 256, (n, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    y = torch.cat([net(hf.data.to_float(part)).argmax(1) for part in x.split(500)])
names = tuple(f"class {i}" for i in range(1000))
facts = {"name": "many", "split": "test", "class_names": names, "source": "made up", "checksum": ""}
data = Dataset(x=x, y=y, ids=torch.arange(n), **facts)
attack = hf.recipes.ifia(eps=0.05, step_size=0.02, steps=1, k=8, ig_steps=2)
with tempfile.TemporaryDirectory() as folder:
    pgd = hf.recipes.pgd(eps=0.05, steps=1)
    protocol = EvaluationProtocol(attacks={"ifia-topk": attack}, pgd=pgd, batch_size=500, panels=2)
    done = evaluate(net, data, protocol, out=folder)
assert len(done.rows) == n == done.summary["n"]
assert done.summary["natural_accuracy"] == 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(images: int) -> int:
    """Largest memory, in kB, of an evaluation of so many images."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(images)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_memory_does_not_grow_with_the_images() -> None:
    few, many = peak(FEW), peak(MANY)
    assert many <= 1.5 * few, f"{few} kB for {FEW} images, {many} kB for {MANY}"
