"""
The archive of Spark's classes that the image has, for Java on this machine: jobs start sooner.

Drivers find it by `SPARK_CONF_DIR`, executors by the settings of their job.
"""

import functools
import importlib.util
from pathlib import Path

from sandbox import jars

_IMAGE = Path(__file__).parents[1] / "images" / "spark"


@functools.cache
def made() -> Path:
    """Make it, unless it was made for these jars before; where drivers find it."""
    spark = importlib.util.find_spec("pyspark")
    assert spark
    assert spark.origin
    libraries = Path(spark.origin).with_name("jars")
    script, listed = _IMAGE / "archive", _IMAGE / "classes.gz"
    # Java compares the jars' times with those that they had.
    times = [f"{jar} {jar.stat().st_mtime_ns}" for jar in sorted(libraries.glob("*.jar"))]
    made_of = (str(jars.java()), script.read_text(), listed.read_bytes().hex(), *times)
    folder = jars.cache() / "classes" / jars.digest(*made_of)

    def make(place: Path) -> None:
        jars.run(script, listed, libraries, place, place)
        settings = place / "spark-defaults.conf"
        settings.write_text(settings.read_text().replace(str(place), str(folder)))

    jars.made_once(folder, "an archive of Spark's classes", make)
    return folder


def for_executors() -> dict[str, str]:
    """Say how executors find it."""
    folder = made()
    return {
        "spark.executor.defaultJavaOptions": f"-XX:SharedArchiveFile={folder / 'classes.jsa'}",
        "spark.executor.extraClassPath": (folder / "classpath").read_text(encoding="utf-8"),
    }
