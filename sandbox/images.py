"""
Builds the images with docker or buildah, and their base image without a registry.

buildah keeps its images in the cache, separate from the machine's own images. The settings with
which this machine's pip reaches its registry go into a build as secrets, which no image keeps.
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
"""The time of all files, so that layers are reproducible: 1980, the first year of zip files."""
_SUITE = "bookworm"
_WITHOUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
_REACHING = ("extra-index-url", "index-url", "proxy", "trusted-host")
"""Settings of pip that say how it reaches its package registry."""
_CERTIFICATES = "/run/secrets/certificates"


@dataclass(frozen=True, slots=True)
class Image:
    """A built image, as its builder lists it."""

    name: str
    id: str
    size: str


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds images, and its arguments."""

    command: Sequence[str]
    build: Sequence[str]
    where: str = ""
    """A prefix of the images' names."""

    def build_image(
        self, target: str, tag: str, arguments: Mapping[str, str], context: Path = ROOT
    ) -> Image:
        """Build a target of the Dockerfile in a folder."""
        name = f"{self.where}evenkeel-{target}:{tag}"
        progress.say(f"building {name}; the first time takes minutes")
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        with write_secrets() as known:
            options += [f"--secret=id={key},src={path}" for key, path in known.items()]
            jars.run(
                *self.command, *self.build, *options, f"--target={target}", f"--tag={name}", context
            )
        return self.find(name)

    def find(self, name: str) -> Image:
        """Look up a built image."""
        answer = _run(*self.command, "images", "--format={{.ID}} {{.Size}}", name)
        return Image(name, *answer.splitlines()[0].split(maxsplit=1))


def read_version() -> str:
    """Read the project's version, which is the tag of images."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def build(builder: Builder, base: str = "", tag: str = "", extra_packages: str = "") -> list[Image]:
    """Build both images on `base`, or on the base that the Dockerfile names."""
    given = {"BASE": base, "EXTRA_PACKAGES": extra_packages}
    arguments = {name: value for name, value in given.items() if value}
    return [builder.build_image(target, tag or read_version(), arguments) for target in TARGETS]


def choose_builder() -> Builder:
    """Choose docker if its daemon answers, otherwise buildah."""
    if _has_docker():
        return _make_docker()
    try:
        return set_up_buildah()
    except debian.NoDebianError as error:
        raise debian.NoDebianError(f"{error}; or start docker") from error


def build_base() -> str:
    """Make a base from Debian's packages, unless it exists; return its name."""
    debian.install("buildah", "mmdebstrap")
    options = [f"--dpkgopt=path-exclude={each}" for each in _WITHOUT] + [
        "--dpkgopt=path-include=/usr/share/doc/*/copyright"
    ]
    command = [
        "env", f"SOURCE_DATE_EPOCH={EPOCH}", "mmdebstrap", "--variant=minbase", *options,
        # Without these, mmdebstrap adds usrmerge, which needs Perl. The folders are merged already.
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--include=usr-is-merged", _SUITE,
    ]  # fmt: skip
    folder = jars.find_cache() / "images" / f"{_SUITE}-{jars.digest(*command)}"
    what = "the images' base, from Debian's packages"
    jars.make_once(folder, what, lambda place: jars.run(*command, place / "base.tar"))
    name = f"localhost/evenkeel-base:{folder.name}"
    store = set_up_buildah().command
    if not _run(*store, "images", "--quiet", "--filter", f"reference={name}").strip():
        container = _run(*store, "from", "scratch").strip()
        jars.run(*store, "add", container, folder / "base.tar")
        jars.run(*store, "commit", "--rm", f"--timestamp={EPOCH}", container, name)
    return name


def set_up_buildah() -> Builder:
    """Set up buildah, which needs no daemon, with its images in the cache."""
    debian.install("buildah")
    images = jars.find_cache() / "images"
    store = ("buildah", "--root", str(images / "storage"), "--runroot", str(images / "run"))
    build = ("build", "--isolation=chroot", "--layers", f"--timestamp={EPOCH}")
    return Builder(store, build, "localhost/")


def _make_docker() -> Builder:
    return Builder(("docker",), ("build", f"--build-arg=SOURCE_DATE_EPOCH={EPOCH}"))


def _has_docker() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def write_secrets() -> Iterator[dict[str, Path]]:
    """Write pip's settings for its registry to files, if there are any. Yield the files."""
    settings = _read_pip_settings()
    found: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-images-") as folder:
        lines = [f"{name} = {value}" for name, value in settings.items() if name in _REACHING]
        if "cert" in settings:
            found["certificates"] = Path(settings["cert"])
            lines.append(f"cert = {_CERTIFICATES}")
            java = jars.find_java()
            trusted = java and java.resolve().parents[1] / "lib" / "security" / "cacerts"
            if trusted and trusted.exists():
                found["java-certificates"] = trusted.resolve()
        if lines:
            found["pip"] = Path(folder, "pip.conf")
            found["pip"].write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
        yield found


def _read_pip_settings() -> dict[str, str]:
    """Read pip's settings from its files and from the environment, which has priority."""
    lines = _run(sys.executable, "-m", "pip", "config", "list").splitlines()
    pairs = (
        line.partition("=") for line in sorted(lines, key=lambda line: line.startswith(":env:"))
    )
    return {
        name.rpartition(".")[2]: " ".join(str(ast.literal_eval(value)).split())
        for name, _, value in pairs
        if name.split(".")[0] in ("global", "install", ":env:")
    }


def _run(*command: str | Path) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise process.SandboxError(f"{' '.join(map(str, command))}: {answer.stderr.strip()}")
    return answer.stdout
