"""
Fetches schemas of Kubernetes objects for kubeconform, with a folder for each Kubernetes version.

The schemas of Kubernetes' own kinds come from a PyPI package. Those of the Prometheus Operator's
kinds come from the definitions in its Go module. Both are unpacked into the cache.
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
"""The oldest version that the chart supports."""
MONITORING = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_IN_PACKAGE = Path("kubernetes_validate", "kubernetes-json-schema")
_STRICT = "-local-strict"
_IN_MODULE = Path("example", "prometheus-operator-crd")
_KINDS = ("podmonitors", "prometheusrules", "servicemonitors")
_SHARED = "_definitions.json"
Document = dict[str, Any]


def fetch_kubernetes() -> Path:
    """Fetch the folders `1.30.0` and newer; the schemas refuse unknown fields."""
    folder = jars.find_cache() / "schemas" / PACKAGE.replace("==", "-")
    jars.make_once(folder, f"Kubernetes' schemas, from {PACKAGE}", _unpack)
    return folder


def fetch_monitoring() -> Sequence[Path]:
    """Fetch the definitions of the Prometheus Operator's kinds."""
    folder = jars.find_cache() / "schemas" / MONITORING.rpartition("/")[2].replace("@", "-")
    jars.make_once(folder, f"definitions, from {MONITORING}", _download)
    return sorted(folder.glob("*.yaml"))


def write(definition: Document, folder: Path) -> None:
    """Write the schemas of a kind to files named `<group>/<kind>_<version>.json`."""
    spec = definition["spec"]
    (folder / spec["group"]).mkdir(parents=True, exist_ok=True)
    for version in spec["versions"]:
        name = f"{spec['names']['kind'].lower()}_{version['name']}.json"
        schema = make_strict(version["schema"]["openAPIV3Schema"])
        (folder / spec["group"] / name).write_text(json.dumps(schema), encoding="utf-8")


def make_strict(schema: Document) -> Document:
    """Make a schema refuse unknown fields, which a definition allows and an API server drops."""
    found = {**schema}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = make_strict(found[name])
    if "properties" in found:
        found["properties"] = {
            name: make_strict(each) for name, each in found["properties"].items()
        }
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
                _copy(folder, place / version)


def _copy(folder: Path, to: Path) -> None:
    """Copy a version's schemas. Replace the URL of the shared definitions by a local file."""
    to.mkdir()
    for file in folder.glob("*.json"):
        text = file.read_text("utf-8").replace(f'"/api/{_SHARED}#', f'"{_SHARED}#')
        schema = json.loads(text)
        schema.pop("$id", None)
        (to / file.name).write_text(json.dumps(schema), encoding="utf-8")


def _download(place: Path) -> None:
    answer = subprocess.run(
        [go.find_toolchain(), "mod", "download", "-json", MONITORING],
        capture_output=True, text=True, check=False, cwd=place,
    )  # fmt: skip
    if answer.returncode != 0:
        raise jars.StepFailedError(
            f"{MONITORING} cannot be downloaded: {answer.stderr or answer.stdout}"
        )
    folder = Path(json.loads(answer.stdout)["Dir"]) / _IN_MODULE
    for kind in _KINDS:
        shutil.copyfile(folder / f"monitoring.coreos.com_{kind}.yaml", place / f"{kind}.yaml")
