"""Generates the CustomResourceDefinitions from types, for kubectl and for the chart."""

from pathlib import Path

from evenkeel import crds

FOLDERS = ("crds", "charts/evenkeel/files/crds")


def write(root: Path) -> None:
    """Write each definition to `crds/` and to the chart."""
    for folder in FOLDERS:
        for kind in crds.KINDS:
            file = root / folder / f"{kind.crd_name}.yaml"
            file.write_text(crds.render_yaml(kind), encoding="utf-8")
