"""`holdfast audit --certify`: from the command to certificates.json and the page."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import save_file
from tests.trained import trained

import holdfast as hf
from holdfast.cli import main
from holdfast.evaluation.audit_settings import AuditSettings
from holdfast.evaluation.certify import IMAGES, certify_audit

FEW = hf.CertifySettings(draws=60, attack_steps=2, attack_draws=4, radii=(1.0,))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    digits = hf.data.load("digits", split="test").stratified(12)
    (tmp_path / "certified_net.py").write_text(
        "import holdfast as hf\n\n\ndef build():\n    return hf.models.build('digits-cnn', num_classes=10, seed=3)\n"
    )
    save_file(trained("digits-cnn", 8).state_dict(), tmp_path / "w.safetensors")
    for number, (image, label) in enumerate(zip(digits.x, digits.y.tolist(), strict=True)):
        folder = tmp_path / "images" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(folder / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "certified_net", raising=False)
    monkeypatch.setattr("holdfast.evaluation.certify.IMAGES", 4)
    monkeypatch.setattr("holdfast.evaluation.certify.CertifySettings", lambda: FEW)
    return tmp_path


def test_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "--model", "certified_net:build", "--weights", "w.safetensors", "--data", "images", "--quiet"]
    quick = ["--steps", "1", "--ig-steps", "2", "--limit", "6", "--no-strong", "--certify", "--out", "runs/c"]
    assert main([*words, *quick]) == 0
    said = capsys.readouterr().out
    assert "The smoothed map is certified, not the plain one, for 4 images." in said
    assert said.index("This audit cannot say") < said.index("The smoothed map") < said.index("report:")
    content = json.loads((project / "runs/c/certificates.json").read_text())
    assert content["n"] == len(content["ids"]) == 4
    assert content["attack"]["contradictions"] == 0
    assert len(content["overlap"]["per_image"]) == 4
    assert '<section id="certificates"' in (project / "runs/c/report.html").read_text()
    assert (project / "runs/c/certificates/noisy-maps-00000.npz").exists()


def test_predicted_labels_and_the_number_of_images() -> None:
    data = hf.data.load("digits", split="test")
    net = hf.models.build("digits-cnn", seed=0)  # untrained: most given labels are not the predicted ones
    settings = hf.CertifySettings(draws=20, attack_steps=0)
    given, predicted = (
        certify_audit(net, data, AuditSettings(k=5), settings, labels=labels) for labels in ("given", "predicted")
    )
    assert len(given.smoothed) == len(predicted.smoothed) == IMAGES
    assert given.k == 5
    assert not given.smoothed.equal(predicted.smoothed)
    assert len(certify_audit(net, data, AuditSettings(limit=2), settings).smoothed) == 2
