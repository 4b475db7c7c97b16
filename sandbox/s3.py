"""
Starts a store on loopback that speaks the protocol of S3, and keeps its objects in files.

    with s3.run("rows") as server:
        pyarrow.fs.S3FileSystem(**server.options)

The block gets a store with one empty bucket. The store is gone when the block ends.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox import jars, ports, process

_S3PROXY = "org.gaul:s3proxy:3.0.0"
_START_SECONDS = 60.0
_ACCESS_KEY, _SECRET_KEY = "tests", "only-for-tests"


@dataclass
class S3Server:
    """A store that can be killed, and started again."""

    port: int
    bucket: str
    _classpath: str
    _place: process.Folder
    _child: process.ChildProcess | None = None

    @property
    def options(self) -> dict[str, str]:
        """The options with which Arrow's file system reaches the store."""
        return {
            "access_key": _ACCESS_KEY,
            "secret_key": _SECRET_KEY,
            "endpoint_override": f"127.0.0.1:{self.port}",
            "scheme": "http",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables for its clients: the store does not know the checksums of newer clients."""
        return {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}

    def start(self) -> None:
        """Start the server, with the objects that it had."""
        objects = self._place.path / "objects"
        (objects / self.bucket).mkdir(parents=True, exist_ok=True)
        settings = self._place.path / "s3proxy.properties"
        settings.write_text(
            f"s3proxy.endpoint=http://127.0.0.1:{self.port}\n"
            "s3proxy.authorization=aws-v4\n"
            f"s3proxy.identity={_ACCESS_KEY}\n"
            f"s3proxy.credential={_SECRET_KEY}\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={objects}\n"
        )
        java, program = jars.find_java() or "java", "org.gaul.s3proxy.Main"
        command = [java, "-cp", self._classpath, program, "--properties", settings]
        self._child = child = process.ChildProcess("s3proxy", command, self._place, {})
        child.wait_until(lambda: child.has_said("Started ServerConnector"), _START_SECONDS)

    def kill(self) -> None:
        """End the server, as kill -9 does."""
        assert self._child is not None, "it was never started"
        self._child.kill()


@contextlib.contextmanager
def run(bucket: str) -> Iterator[S3Server]:
    """Run a store with an empty bucket."""
    classpath = jars.fetch_classpath(_S3PROXY)
    claimed = ports.claim()
    with contextlib.ExitStack() as running:
        running.callback(claimed.release)
        place = running.enter_context(process.make_folder("evenkeel-s3-"))
        server = S3Server(claimed.port, bucket, classpath, place)
        server.start()
        yield server
