"""
Fills containerd's image store: buildah builds the images, and the store stays in the cache.

No registry is needed: the store has each image under the name that charts and examples use.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sandbox import images, jars, progress, rocketmq
from sandbox.node.ground import Ground

STATE = "/run/containerd"
SOCKET = f"{STATE}/containerd.sock"
PAUSE = "localhost/evenkeel-pause:1"
ROCKETMQ = f"docker.io/apache/rocketmq:{rocketmq.VERSION}"
_HERE = Path(__file__).with_name("images")
_NAMESPACE = "k8s.io"
"""The kubelet's namespace in containerd."""


def find_folder() -> Path:
    """Find the folder in which containerd keeps images for the next node."""
    return jars.find_cache() / "node" / "containerd"


def build() -> dict[str, images.Image]:
    """Build all images that have changed; return them by their names in the store."""
    builder = images.set_up_buildah()
    ours = images.build(builder, images.build_base())
    operator, spark = ours
    arguments = {"OPERATOR": operator.name, "SPARK": spark.name}
    with tempfile.TemporaryDirectory(prefix="evenkeel-images-") as place:
        context = Path(place, "context")
        shutil.copytree(_HERE, context)
        (context / "lib").mkdir()
        for jar in map(Path, jars.fetch_classpath(*rocketmq.LIBRARIES).split(":")):
            shutil.copy(jar, context / "lib")
        pause, mq = (
            builder.build_image(target, tag, arguments, context)
            for target, tag in (("pause", "1"), ("rocketmq", rocketmq.VERSION))
        )
    named = {f"docker.io/library/{each.name.rpartition('/')[2]}": each for each in ours}
    return {**named, PAUSE: pause, ROCKETMQ: mq}


def make_ctr_command(containerd: Path) -> tuple[str | Path, ...]:
    """Make the command that controls the kubelet's containers."""
    return (containerd.with_name("ctr"), f"--address={SOCKET}", f"--namespace={_NAMESPACE}")


def fill(ground: Ground, containerd: Path, wanted: Mapping[str, images.Image]) -> None:
    """Import images that have changed, and delete containers that a killed node has left."""
    tell = make_ctr_command(containerd)
    for container in ground.run(*tell, "containers", "list", "--quiet").split():
        ground.run(*tell, "containers", "delete", container)
    for name, image in wanted.items():
        imported = find_folder().with_name("imported") / name.replace("/", "_")
        if imported.exists() and imported.read_text() == image.id:
            continue
        progress.say(f"importing {name}, which takes up to a minute")
        with tempfile.TemporaryDirectory(prefix="evenkeel-images-") as place:
            archive = Path(place, "image.tar")
            store = images.set_up_buildah().command
            jars.run(*store, "push", image.name, f"docker-archive:{archive}:{name}")
            ground.run(*tell, "images", "import", archive)
        imported.parent.mkdir(exist_ok=True)
        imported.write_text(image.id)
