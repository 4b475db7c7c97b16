"""
Downloads Java libraries with their dependencies into the cache, and compiles against them.

`fetch_classpath("org.apache.rocketmq:rocketmq-client:5.4.0")` is all that a caller needs.
Everything is made only once: a second caller at the same moment waits for the first one. Maven
downloads the libraries if it is on PATH. Otherwise Ivy downloads them. Ivy's jar comes with
PySpark, so a JDK is enough.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sandbox import progress

_PYSPARK = "4.3.0"
_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_QUIET_SECONDS = 10.0


class JarsError(Exception):
    """The base class of all errors of this module."""


class BadCoordinateError(JarsError):
    """A Maven coordinate is not group:artifact:version."""


class NoJavaError(JarsError):
    """There is no Java, or it has no compiler."""


class StepFailedError(JarsError):
    """A program that downloads or compiles failed, or could not be started."""


def find_java() -> Path | None:
    """Find Java, in JAVA_HOME or else on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home) / "bin" / "java"
    found = shutil.which("java")
    return Path(found) if found else None


def find_javac() -> Path | None:
    """Find the compiler of this Java; None if only a runtime is installed."""
    found = find_java()
    compiler = found.resolve().with_name("javac") if found else None
    return compiler if compiler and compiler.exists() else None


def find_cache() -> Path:
    """Find the folder for files that take long to make. It is never inside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "evenkeel"


def fetch_classpath(*coordinates: str) -> str:
    """Download these libraries and their dependencies; return the jars, ready for `-cp`."""
    for coordinate in coordinates:
        if not _COORDINATE.fullmatch(coordinate):
            raise BadCoordinateError(f"{coordinate!r} is not group:artifact:version")
    wanted = sorted(set(coordinates))
    label = "-".join(wanted[0].split(":")[1:])
    folder = find_cache() / "jars" / f"{label}-{digest(*wanted)}"
    make_once(folder, f"the jars of {', '.join(wanted)}", lambda place: _fetch(wanted, place))
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def compile_sources(sources: Sequence[Path], libraries: str, *, release: int | None = None) -> Path:
    """
    Compile Java files against a class path; return the folder of the classes.

    `release` is the version of Java that must be able to run the classes. The default is the
    compiler's version.
    """
    compiler = find_javac()
    if compiler is None:
        raise NoJavaError("no Java compiler: install a JDK 17 or newer, a runtime is not enough")
    texts = (source.read_text(encoding="utf-8") for source in sorted(sources))
    options = ["-encoding", "UTF-8", "-cp", libraries]
    if release is not None:
        options += ["--release", str(release)]
    folder = find_cache() / "classes" / digest(str(compiler), *options, *texts)
    command = [str(compiler), *options]
    names = ", ".join(source.name for source in sources)
    make_once(
        folder, f"classes of {names}", lambda place: run(*command, "-d", place, *sorted(sources))
    )
    return folder


def make_once(folder: Path, what: str, make: Callable[[Path], None]) -> None:
    """
    Let `make` fill a folder, unless the folder exists.

    Under a lock, `make` fills another folder, which then gets the final name. So a folder that
    exists is complete, and the next run deletes what a killed run has left.
    """
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_name(f"{folder.name}.lock")):
        if folder.exists():
            return
        progress.say(f"making {what}, once, in {folder}")
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        started = time.monotonic()
        make(part)
        part.rename(folder)
        progress.say(f"done in {time.monotonic() - started:.0f} s")


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a program that may take minutes. Report progress on stderr. Errors show its output."""
    name = Path(command[0]).name
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            child = subprocess.Popen(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise StepFailedError(f"{command[0]} does not start: {error}") from error
        try:
            while _is_still_running(child):
                progress.say(f"{name} has been running for {time.monotonic() - started:.0f} s")
        finally:
            child.kill()
            child.wait()
        if child.returncode != 0:
            log.seek(0)
            raise StepFailedError(_describe_failure(name, child.returncode, log.read()))


def _is_still_running(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(_QUIET_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _describe_failure(name: str, code: int, output: str) -> str:
    """Describe a failure by the end of the program's output, which contains the reason."""
    lines = [line for line in output.splitlines() if line.strip()][-15:]
    said = "".join(f"\n  {line}" for line in lines) or " It is empty."
    return (
        f"{name} ended with code {code}. If this machine is offline, try again when it can reach "
        f"its package registries. The end of its output:{said}"
    )


def _fetch(coordinates: Sequence[str], place: Path) -> None:
    maven = shutil.which("mvn")
    with tempfile.TemporaryDirectory(prefix="evenkeel-jars-") as scratch:
        if maven:
            _fetch_with_maven(maven, coordinates, place, Path(scratch))
        else:
            _fetch_with_ivy(coordinates, place, Path(scratch))
    if not any(place.glob("*.jar")):
        raise StepFailedError(f"no jar was found for {', '.join(coordinates)}")


def _fetch_with_maven(maven: str, coordinates: Sequence[str], place: Path, scratch: Path) -> None:
    pom = scratch / "pom.xml"
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "</dependency>".format(*coordinate.split(":"))
        for coordinate in coordinates
    )
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>dev.evenkeel</groupId>"
        "<artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>",
        encoding="utf-8",
    )
    run(
        maven, "--batch-mode", "--file", pom, "dependency:copy-dependencies",
        "-DincludeScope=runtime", "-Dmdep.prependGroupId=true", f"-DoutputDirectory={place}",
    )  # fmt: skip


def _fetch_with_ivy(coordinates: Sequence[str], place: Path, scratch: Path) -> None:
    found = find_java()
    if found is None:
        raise NoJavaError(
            "neither Maven nor Java is on PATH: install a JDK 17 or newer, or set JAVA_HOME"
        )
    module = scratch / "ivy.xml"
    dependencies = "".join(
        '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'.format(
            *coordinate.split(":")
        )
        for coordinate in coordinates
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="dev.evenkeel" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    pattern = place / "[organisation].[artifact]-[revision](-[classifier]).[ext]"
    run(found, "-jar", _find_ivy(), "-ivy", module, "-confs", "default", "-retrieve", pattern)


def _find_ivy() -> Path:
    """Find Ivy in the installed PySpark, or else extract it from PySpark's package."""
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        for jar in (Path(spec.origin).parent / "jars").glob("ivy-*.jar"):
            return jar
    folder = find_cache() / "jars" / f"ivy-of-pyspark-{_PYSPARK}"
    make_once(folder, f"Ivy, from PySpark {_PYSPARK} (450 MB to download)", _unpack_ivy)
    return next(folder.glob("ivy-*.jar"))


def _unpack_ivy(place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="evenkeel-pyspark-", dir=place.parent) as scratch:
        run(
            sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "pyspark",
            "--dest", scratch, f"pyspark=={_PYSPARK}",
        )  # fmt: skip
        archive = next(Path(scratch).glob("pyspark-*.tar.gz"))
        with tarfile.open(archive) as members:
            for member in members:
                name = Path(member.name).name
                content = members.extractfile(member) if re.match(r"ivy-.*\.jar$", name) else None
                if content is not None:
                    (place / name).write_bytes(content.read())
                    return
    raise StepFailedError(f"PySpark {_PYSPARK} contains no jar of Ivy")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock until the block ends. If this process dies, the kernel releases the lock."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"another run holds {path}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(*texts: str) -> str:
    """Make a short folder name from strings. The name changes when one of the strings changes."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:10]
