"""The manifests of groups and topics."""

import re
from pathlib import Path


def fill(file: str, **values: object) -> str:
    """Read a manifest of this folder, and replace its words in capitals."""
    text = Path(__file__).with_name(file).read_text()
    for word, value in values.items():
        text = re.sub(rf"\b{word}\b", str(value), text)
    return text
