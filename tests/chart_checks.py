"""
Checks the chart with helm and kubeconform: `python -m tests.chart_checks`.

Helm renders the chart with several files of values. Kubeconform compares every object, and also the
manifests of a benchmark, with the schemas of each Kubernetes version that the chart supports. This
program prints one line per check, and exits with 1 if a check fails. If a program or its schemas
are missing here, a loud line says what was skipped.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.handover import members, pods
from sandbox import go, jars, programs, schemas
from tests.chart.rendering import CHART, EVERYTHING, MONITORING, OFF, ROOT

VALUES = {
    "defaults": [],
    "everything": ["--values", str(EVERYTHING)],
    "all off": ["--values", str(OFF)],
}
EXAMPLES = ROOT / "examples"
"""The manifests in this folder are checked like the objects of the chart."""
APIS = [word for each in MONITORING for word in ("--api-versions", each)]
BUILT_IN = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
DEFINED = "{{ .Group }}/{{ .ResourceKind }}_{{ .ResourceAPIVersion }}.json"


class CheckError(Exception):
    """A check has failed; the text is the output of the program."""


def main() -> int:
    """Print what was checked, what was skipped and what failed."""
    try:
        for line in checks():
            print(line, flush=True)
    except CheckError as error:
        print(f"FAILED {error}")
        return 1
    except jars.JarsError as error:
        print(f"SKIPPED THE REST OF THE CHART'S CHECKS: {error}")
    return 0


def checks() -> Iterator[str]:
    """Run the checks one by one; yield a line for each that succeeded or was skipped."""
    helm = go.build(programs.HELM)
    rendered = [examples(), member_pods()]
    for name, options in VALUES.items():
        ran("helm lint", helm, "lint", "--strict", "--quiet", *options, CHART)
        yield f"ok  helm lint --strict, {name}"
        rendered.append(ran("helm", helm, "template", "keel", CHART, *APIS, *options))
    rendered += [file.read_text("utf-8") for file in sorted(EXAMPLES.rglob("*.yaml"))]
    kubeconform = go.build(programs.KUBECONFORM)
    versions = sorted(schemas.fetch_kubernetes().iterdir())
    with tempfile.TemporaryDirectory(prefix="evenkeel-schemas-") as folder:
        definitions, skipped = list((ROOT / "crds").iterdir()), []
        try:
            definitions += schemas.fetch_monitoring()
        except jars.JarsError as error:
            skipped = ["-skip", ",".join(each.rpartition("/")[2] for each in MONITORING)]
            yield f"SKIPPED {skipped[1]}: {error}"
        for file in definitions:
            schemas.write(yaml.load(file.read_text("utf-8"), yaml.CSafeLoader), Path(folder))
        for place in versions:
            said = ran(
                f"kubeconform, Kubernetes {place.name}",
                kubeconform, "-strict", "-summary", *skipped,
                "-schema-location", f"{place}/{BUILT_IN}",
                "-schema-location", f"{folder}/{DEFINED}",
                told="\n---\n".join(rendered),
            )  # fmt: skip
            yield f"ok  kubeconform -strict, Kubernetes {place.name}: {said.strip()}"


def examples() -> str:
    """Find the examples that Artifact Hub shows."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    return yaml.safe_dump_all(yaml.safe_load(chart["annotations"]["artifacthub.io/crdsExamples"]))


def member_pods() -> str:
    """Make the manifests that a benchmark applies for members. Here, their program does nothing."""
    program = members.make_program("image", "true", {"/code": ROOT})
    return (
        f"{members.make_manifests('orders')}---\n{json.dumps(pods.build('orders', program, ROOT))}"
    )


def ran(what: str, *command: str | Path, told: str | None = None) -> str:
    """Run a program, and return what it printed."""
    answer = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise CheckError(f"{what}: {answer.stderr}{answer.stdout}")
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main())
