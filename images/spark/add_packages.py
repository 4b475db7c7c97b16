#!/opt/evenkeel/venv/bin/python
"""
Adds libraries from Maven to those of Spark: `add-packages GROUP:ARTIFACT:VERSION ...`.

Their dependencies are added too, except libraries that Spark already has: of two versions, Java
might load either one. Ivy, which comes with Spark, downloads the libraries.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax import saxutils

SPARK = Path("/opt/spark/jars")
TRUSTED = Path("/run/secrets/java-certificates")
"""The certificates that Java trusts, if the build passes its own."""
COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
MODULE = """\
<ivy-module version="2.0"><info organisation="dev.evenkeel" module="packages"/>
<configurations><conf name="default"/></configurations>
<dependencies>{}</dependencies></ivy-module>
"""
DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'


def main(arguments: Sequence[str]) -> int:
    """Add all libraries, or none of them."""
    coordinates = [each for argument in arguments for each in argument.split(",") if each]
    wrong = [each for each in coordinates if not COORDINATE.fullmatch(each)]
    if wrong or not coordinates:
        shown = ", ".join(wrong) or "no argument"
        sys.stderr.write(f"evenkeel: {shown}: not group:artifact:version\n")
        return 64
    with tempfile.TemporaryDirectory(prefix="evenkeel-packages-") as folder:
        ivy = fetch(coordinates, Path(folder))
        if ivy.returncode != 0:
            sys.stderr.write(
                f"{ivy.stdout}evenkeel: Ivy could not fetch {', '.join(coordinates)}\n"
            )
            return 1
        add(Path(folder) / "jars")
    return 0


def fetch(coordinates: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Let Ivy download the libraries, into one folder for each artifact."""
    parts = (map(saxutils.escape, each.split(":")) for each in coordinates)
    module = folder / "ivy.xml"
    module.write_text(MODULE.format("".join(DEPENDENCY.format(*each) for each in parts)))
    trust = [f"-Djavax.net.ssl.trustStore={TRUSTED}"] if TRUSTED.exists() else []
    (ivy,) = SPARK.glob("ivy-*.jar")
    pattern = f"{folder}/jars/[artifact]/[artifact]-[revision](-[classifier]).[ext]"
    command: list[str | Path] = [
        "java", *trust, "-jar", ivy, "-warn", "-cache", folder / "cache", "-ivy", module,
        "-confs", "default", "-types", "jar", "bundle", "-retrieve", pattern,
    ]  # fmt: skip
    return subprocess.run(  # noqa: S603 coordinates were checked
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def add(fetched: Path) -> None:
    """Add the libraries that Spark does not have."""
    there = [jar.name for jar in SPARK.iterdir()]
    for artifact in sorted(fetched.iterdir()):
        version = re.compile(rf"{re.escape(artifact.name)}-\d.*\.jar")
        same = [name for name in there if version.fullmatch(name)]
        for jar in artifact.iterdir():
            if same:
                sys.stdout.write(f"{jar.name}: left out, because Spark has {', '.join(same)}\n")
            else:
                shutil.copyfile(jar, SPARK / jar.name)
                sys.stdout.write(f"{jar.name}: added\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
