"""Renders the chart with the real helm, without a cluster."""

import functools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "evenkeel"
RELEASE, NAMESPACE = "keel", "evenkeel-system"
NAME = f"{RELEASE}-evenkeel"
EVERYTHING, OFF = (Path(__file__).with_name(f"{name}.yaml") for name in ("everything", "off"))
"""Files of values: one without any default value, and one with everything switched off."""
ALL_ON = {
    "monitoring__serviceMonitor__enabled": "true",
    "monitoring__podMonitor__enabled": "true",
    "monitoring__rules__enabled": "true",
    "monitoring__dashboard__enabled": "true",
    "networkPolicy__enabled": "true",
}
"""Settings that switch on everything that is off by default."""
MONITORING = [f"monitoring.coreos.com/v1/{kind}" for kind in (
    "PodMonitor", "PrometheusRule", "ServiceMonitor",
)]  # fmt: skip
Document = dict[str, Any]


class RefusedError(Exception):
    """Helm refuses these values; the text is helm's output."""


@dataclass(frozen=True)
class Rendered:
    """The objects that helm would install."""

    objects: Sequence[Document]

    def of(self, kind: str) -> list[Document]:
        """List the objects of a kind, without those of `helm test`."""
        return [each for each in self.objects if each["kind"] == kind and not is_hook(each)]

    def one(self, kind: str, name: str = NAME) -> Document:
        """Find an object."""
        (found,) = (each for each in self.of(kind) if each["metadata"]["name"] == name)
        return found

    @property
    def hooks(self) -> dict[str, Document]:
        """The objects that `helm test` creates, by kind."""
        return {each["kind"]: each for each in self.objects if is_hook(each)}

    @property
    def pod(self) -> Document:
        """The pod template of the Deployment."""
        found: Document = self.of("Deployment")[0]["spec"]["template"]
        return found

    @property
    def container(self) -> Document:
        """The container of the operator."""
        (found,) = self.pod["spec"]["containers"]
        return dict(found)


def is_hook(found: Document) -> bool:
    return "helm.sh/hook" in found["metadata"].get("annotations", {})


class Helm:
    """The real helm. It keeps each result, so that it never renders the same values again."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._kept = functools.cache(self._rendered)

    def template(
        self,
        *values: Path,
        apis: Sequence[str] = MONITORING,
        options: Sequence[str] = (),
        **settings: str,
    ) -> Rendered:
        """Render with files of values, and with settings in whose names `__` stands for a dot."""
        return self._kept(values, tuple(apis), tuple(options), tuple(settings.items()))

    def _rendered(
        self,
        values: Sequence[Path],
        apis: Sequence[str],
        options: Sequence[str],
        settings: Sequence[tuple[str, str]],
    ) -> Rendered:
        text = self.run(
            "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *options,
            *(word for each in values for word in ("--values", str(each))),
            *(word for each in apis for word in ("--api-versions", each)),
            *(word for name, value in settings
              for word in ("--set", f"{name.replace('__', '.')}={value}")),
        )  # fmt: skip
        found = yaml.load_all(text, yaml.CSafeLoader)
        return Rendered([each for each in found if each])

    def run(self, *words: str) -> str:
        """Run helm, and return what it printed."""
        answer = subprocess.run(
            [self._program, *words], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            raise RefusedError(answer.stderr)
        return answer.stdout


def at(found: Any, path: str) -> Any:
    """Follow a path such as `spec.ports.0.port`. In a path, `~1` stands for a dot within a name."""
    for step in path.split("."):
        name = step.replace("~1", ".")
        found = found[int(step)] if isinstance(found, list) else found[name]
    return found


def settings_of(values: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Flatten nested maps of values."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= settings_of(value, f"{at}{name}.")
        else:
            found[f"{at}{name}"] = value
    return found
