"""Makes brokers lose their oldest messages when a test wants it."""

from pathlib import Path

from sandbox.rocketmq import Broker

SMALL_FILES = {"mappedFileSizeCommitLog": "65536"}
"""A few messages fill a file of the commit log."""


def forget_files(broker: Broker, count: int = 2) -> None:
    """Make a broker delete its oldest messages now; by itself it does so once a minute."""
    broker.kill()
    log = Path(broker.make_properties()["storePathRootDir"], "commitlog")
    for file in sorted(log.iterdir())[:count]:
        file.unlink()
    broker.restart()
