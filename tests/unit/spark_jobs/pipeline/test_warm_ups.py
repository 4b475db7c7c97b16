"""Tests what an executor has done before it is warm."""

import subprocess
import sys

WARM_UP = """
import sys
from types import SimpleNamespace

from spark_jobs import connections, schema
from spark_jobs.pipeline.warm_ups import _PythonTask

connections.get_client = lambda cluster: SimpleNamespace(list_topics=list)
list(_PythonTask(None)([]))
before = set(sys.modules)
schema.make_few_rows([], False)
print(sorted(set(sys.modules) - before))
"""


def test_the_first_rows_of_a_warm_executor_import_nothing() -> None:
    """Imports would take half a second, during which a queue that has moved here is not read."""
    done = subprocess.run(
        [sys.executable, "-c", WARM_UP], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
