"""
Schemas of objects as kubeconform wants them, each version of Kubernetes in a folder of its own.

Those of Kubernetes' own kinds come with a package of PyPI, those of the Prometheus Operator's kinds
that the chart makes, as definitions with its Go module. Both are unpacked into the cache.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox import go, jars

PACKAGE = "kubernetes-validate==1.37.0"
OLDEST = (1, 30)
"""What the chart asks for."""
MONITORING = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_IN_PACKAGE = Path("kubernetes_validate", "kubernetes-json-schema")
_STRICT = "-local-strict"
_IN_MODULE = Path("example", "prometheus-operator-crd")
_KINDS = ("podmonitors", "prometheusrules", "servicemonitors")
_SHARED = "_definitions.json"
Document = dict[str, Any]


def kubernetes() -> Path:
    """Find the folder with the folders `1.30.0` and newer: strict, unknown fields are refused."""
    folder = jars.cache() / "schemas" / PACKAGE.replace("==", "-")
    jars.made_once(folder, f"Kubernetes' schemas, from {PACKAGE}", _unpack)
    return folder


def monitoring() -> Sequence[Path]:
    """Find the definitions of the Prometheus Operator's kinds."""
    folder = jars.cache() / "schemas" / MONITORING.rpartition("/")[2].replace("@", "-")
    jars.made_once(folder, f"definitions, from {MONITORING}", _download)
    return sorted(folder.glob("*.yaml"))


def write(definition: Document, folder: Path) -> None:
    """Write the schemas of a kind, as `<group>/<kind>_<version>.json`."""
    spec = definition["spec"]
    (folder / spec["group"]).mkdir(parents=True, exist_ok=True)
    for version in spec["versions"]:
        name = f"{spec['names']['kind'].lower()}_{version['name']}.json"
        schema = strict(version["schema"]["openAPIV3Schema"])
        (folder / spec["group"] / name).write_text(json.dumps(schema), encoding="utf-8")


def strict(schema: Document) -> Document:
    """Refuse unknown fields, which a definition lets in and an API server drops."""
    found = {**schema}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = strict(found[name])
    if "properties" in found:
        found["properties"] = {name: strict(each) for name, each in found["properties"].items()}
        if not found.get("x-kubernetes-preserve-unknown-fields"):
            found["additionalProperties"] = False
    return found


def _unpack(place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="evenkeel-schemas-", dir=place.parent) as scratch:
        jars.run(
            sys.executable, "-m", "pip", "install", "--no-deps", "--target", scratch, PACKAGE
        )  # fmt: skip
        for folder in (Path(scratch) / _IN_PACKAGE).glob(f"*{_STRICT}"):
            version = folder.name.removeprefix("v").removesuffix(_STRICT)
            if tuple(map(int, version.split(".")))[:2] >= OLDEST:
                _take(folder, place / version)


def _take(folder: Path, to: Path) -> None:
    """Take over a version's schemas; what they share they find beside them, and not on the web."""
    to.mkdir()
    for file in folder.glob("*.json"):
        text = file.read_text("utf-8").replace(f'"/api/{_SHARED}#', f'"{_SHARED}#')
        schema = json.loads(text)
        schema.pop("$id", None)
        (to / file.name).write_text(json.dumps(schema), encoding="utf-8")


def _download(place: Path) -> None:
    answer = subprocess.run(
        [go.toolchain(), "mod", "download", "-json", MONITORING],
        capture_output=True, text=True, check=False, cwd=place,
    )  # fmt: skip
    if answer.returncode != 0:
        raise jars.StepFailedError(f"{MONITORING} cannot be had: {answer.stderr or answer.stdout}")
    folder = Path(json.loads(answer.stdout)["Dir"]) / _IN_MODULE
    for kind in _KINDS:
        shutil.copyfile(folder / f"monitoring.coreos.com_{kind}.yaml", place / f"{kind}.yaml")
