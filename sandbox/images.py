"""
Builds the images with docker or buildah, and the base they stand on without any registry.

What buildah makes stays in the cache: nothing of the machine's own images is seen or changed. How
this machine's pip reaches its registry goes into a build as secrets, of which no image keeps
anything.
"""

import ast
import contextlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import debian, jars, process, progress

ROOT = Path(__file__).parents[1]
TARGETS = ("operator", "spark")
EPOCH = 315532800
"""When all files were made, for layers to be the same each time: 1980, where zip files begin."""
_SUITE = "bookworm"
_WITHOUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
_REACHING = ("extra-index-url", "index-url", "proxy", "trusted-host")
"""Of pip's settings those that say how it reaches packages."""
_CERTIFICATES = "/run/secrets/certificates"


@dataclass(frozen=True, slots=True)
class Image:
    """A built image, as its builder calls it."""

    name: str
    id: str
    size: str


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds images, and its way to do so."""

    command: Sequence[str]
    build: Sequence[str]
    where: str = ""
    """In front of the images' names."""

    def built(
        self, target: str, tag: str, arguments: Mapping[str, str], context: Path = ROOT
    ) -> Image:
        """Build a target of the Dockerfile in a folder."""
        name = f"{self.where}evenkeel-{target}:{tag}"
        progress.say(f"building {name}; the first time takes minutes")
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        with secrets() as known:
            options += [f"--secret=id={key},src={path}" for key, path in known.items()]
            jars.run(
                *self.command, *self.build, *options, f"--target={target}", f"--tag={name}", context
            )
        return self.found(name)

    def found(self, name: str) -> Image:
        """Look a built image up."""
        answer = _told(*self.command, "images", "--format={{.ID}} {{.Size}}", name)
        return Image(name, *answer.splitlines()[0].split(maxsplit=1))


def version() -> str:
    """Tell the project's version, which images are tagged with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def built(builder: Builder, base: str = "", tag: str = "", extra_packages: str = "") -> list[Image]:
    """Build both images on a base; without one, on the Dockerfile's own."""
    given = {"BASE": base, "EXTRA_PACKAGES": extra_packages}
    arguments = {name: value for name, value in given.items() if value}
    return [builder.built(target, tag or version(), arguments) for target in TARGETS]


def chosen() -> Builder:
    """Take docker if its daemon answers, else buildah."""
    if _docker_answers():
        return _docker()
    try:
        return buildah()
    except debian.NoDebianError as error:
        raise debian.NoDebianError(f"{error}; or start docker") from error


def bootstrapped() -> str:
    """Make a base from Debian's packages, unless it was made before; return its name."""
    debian.install("buildah", "mmdebstrap")
    options = [f"--dpkgopt=path-exclude={each}" for each in _WITHOUT] + [
        "--dpkgopt=path-include=/usr/share/doc/*/copyright"
    ]
    command = [
        "env", f"SOURCE_DATE_EPOCH={EPOCH}", "mmdebstrap", "--variant=minbase", *options,
        # Else a package comes along that merges what is merged from the start, and Perl with it.
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--include=usr-is-merged", _SUITE,
    ]  # fmt: skip
    folder = jars.cache() / "images" / f"{_SUITE}-{jars.digest(*command)}"
    what = "the images' base, from Debian's packages"
    jars.made_once(folder, what, lambda place: jars.run(*command, place / "base.tar"))
    name = f"localhost/evenkeel-base:{folder.name}"
    store = buildah().command
    if not _told(*store, "images", "--quiet", "--filter", f"reference={name}").strip():
        container = _told(*store, "from", "scratch").strip()
        jars.run(*store, "add", container, folder / "base.tar")
        jars.run(*store, "commit", "--rm", f"--timestamp={EPOCH}", container, name)
    return name


def buildah() -> Builder:
    """Set buildah up: it needs no daemon, and its images are in the cache."""
    debian.install("buildah")
    images = jars.cache() / "images"
    store = ("buildah", "--root", str(images / "storage"), "--runroot", str(images / "run"))
    build = ("build", "--isolation=chroot", "--layers", f"--timestamp={EPOCH}")
    return Builder(store, build, "localhost/")


def _docker() -> Builder:
    return Builder(("docker",), ("build", f"--build-arg=SOURCE_DATE_EPOCH={EPOCH}"))


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def secrets() -> Iterator[dict[str, Path]]:
    """Say how packages are reached from here, as far as anything is set."""
    settings = _pip_settings()
    found: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-images-") as folder:
        lines = [f"{name} = {value}" for name, value in settings.items() if name in _REACHING]
        if "cert" in settings:
            found["certificates"] = Path(settings["cert"])
            lines.append(f"cert = {_CERTIFICATES}")
            java = jars.java()
            trusted = java and java.resolve().parents[1] / "lib" / "security" / "cacerts"
            if trusted and trusted.exists():
                found["java-certificates"] = trusted.resolve()
        if lines:
            found["pip"] = Path(folder, "pip.conf")
            found["pip"].write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
        yield found


def _pip_settings() -> dict[str, str]:
    """Read them as pip does, from its files and the environment, which wins."""
    lines = _told(sys.executable, "-m", "pip", "config", "list").splitlines()
    pairs = (
        line.partition("=") for line in sorted(lines, key=lambda line: line.startswith(":env:"))
    )
    return {
        name.rpartition(".")[2]: " ".join(str(ast.literal_eval(value)).split())
        for name, _, value in pairs
        if name.split(".")[0] in ("global", "install", ":env:")
    }


def _told(*command: str | Path) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise process.SandboxError(f"{' '.join(map(str, command))}: {answer.stderr.strip()}")
    return answer.stdout
