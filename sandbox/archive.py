"""
The archive of Spark's classes that the image has, for Java on this machine: jobs start sooner.

    environment = {**os.environ, **archive.environment()}
"""

import functools
import importlib.util
from pathlib import Path

from sandbox import jars

_IMAGE = Path(__file__).parents[1] / "images" / "spark"


@functools.cache
def environment() -> dict[str, str]:
    """Make it, unless it was made for these jars before; how drivers and executors find it."""
    return {"SPARK_CONF_DIR": str(_made())}


def _made() -> Path:
    spark = importlib.util.find_spec("pyspark")
    assert spark
    assert spark.origin
    libraries = Path(spark.origin).with_name("jars")
    script, listed = _IMAGE / "archive", _IMAGE / "classes.gz"
    texts = [each.read_text(encoding="utf-8") for each in (script, Path(__file__))]
    # Java compares the jars' times with those that they had.
    times = [f"{jar} {jar.stat().st_mtime_ns}" for jar in sorted(libraries.glob("*.jar"))]
    made_of = (str(jars.java()), *texts, listed.read_bytes().hex(), *times)
    folder = jars.cache() / "classes" / jars.digest(*made_of)

    def make(place: Path) -> None:
        jars.run(script, listed, libraries, place, place)
        settings = place / "spark-defaults.conf"
        text = settings.read_text().replace(str(place), str(folder))
        # In the image, executors are started by its own entry point.
        settings.write_text(text + text.replace("spark.driver.", "spark.executor."))

    jars.made_once(folder, "an archive of Spark's classes", make)
    return folder
