"""
Makes an archive of Spark's classes, like that of the image, so that jobs start faster here.

    environment = {**os.environ, **archive.make_environment()}
"""

import functools
import importlib.util
from pathlib import Path

from sandbox import jars

_IMAGE = Path(__file__).parents[1] / "images" / "spark"


@functools.cache
def make_environment() -> dict[str, str]:
    """Make the archive, unless it exists; return the variables with which Spark finds it."""
    return {"SPARK_CONF_DIR": str(_make())}


def _make() -> Path:
    spark = importlib.util.find_spec("pyspark")
    assert spark
    assert spark.origin
    libraries = Path(spark.origin).with_name("jars")
    script, listed = _IMAGE / "archive", _IMAGE / "classes.gz"
    texts = [each.read_text(encoding="utf-8") for each in (script, Path(__file__))]
    # Java compares the modification times of the jars with the recorded ones.
    times = [f"{jar} {jar.stat().st_mtime_ns}" for jar in sorted(libraries.glob("*.jar"))]
    made_of = (str(jars.find_java()), *texts, listed.read_bytes().hex(), *times)
    folder = jars.find_cache() / "classes" / jars.digest(*made_of)

    def make(place: Path) -> None:
        jars.run(script, listed, libraries, place, place)
        settings = place / "spark-defaults.conf"
        text = settings.read_text().replace(str(place), str(folder))
        # Here Spark also starts the executors; in the image, the entry point does.
        settings.write_text(text + text.replace("spark.driver.", "spark.executor."))

    jars.make_once(folder, "an archive of Spark's classes", make)
    return folder
