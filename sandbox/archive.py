"""
Makes an archive of Spark's classes, like that of the image, so that jobs start faster here.

    environment = {**os.environ, **archive.make_environment()}
"""

import functools
import importlib.util
import shutil
from pathlib import Path

from sandbox import jars

_IMAGE = Path(__file__).parents[1] / "images" / "spark"


@functools.cache
def make_environment() -> dict[str, str]:
    """Make the archive, unless it exists; return the variables with which Spark finds it."""
    return {"SPARK_CONF_DIR": str(_make())}


def _make() -> Path:
    libraries = _keep_jars()
    script, listed = _IMAGE / "archive", _IMAGE / "classes.gz"
    texts = [each.read_text(encoding="utf-8") for each in (script, Path(__file__))]
    made_of = (str(jars.find_java()), *texts, listed.read_bytes().hex(), str(libraries))
    folder = jars.find_cache() / "classes" / jars.digest(*made_of)

    def make(place: Path) -> None:
        jars.run(script, listed, libraries, place, place)
        settings = place / "spark-defaults.conf"
        text = settings.read_text().replace(str(place), str(folder))
        # Here Spark also starts the executors; in the image, the entry point does.
        settings.write_text(text + text.replace("spark.driver.", "spark.executor."))

    jars.make_once(folder, "an archive of Spark's classes", make)
    return folder


def _keep_jars() -> Path:
    """
    Keep Spark's jars in the cache, so that one archive serves all checkouts of this machine.

    Java uses an archive only for jars with the recorded paths and modification times.
    """
    spark = importlib.util.find_spec("pyspark")
    assert spark
    assert spark.origin
    installed = sorted(Path(spark.origin).with_name("jars").glob("*.jar"))
    sizes = [f"{jar.name} {jar.stat().st_size}" for jar in installed]
    folder = jars.find_cache() / "jars" / f"spark-{jars.digest(*sizes)}"

    def keep(place: Path) -> None:
        for jar in installed:
            try:
                (place / jar.name).hardlink_to(jar)
            except OSError:  # another file system
                shutil.copy2(jar, place)

    jars.make_once(folder, "a copy of Spark's jars", keep)
    return folder
