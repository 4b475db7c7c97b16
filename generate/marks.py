"""Replaces generated parts of a page, between `<!-- made: name -->` and `<!-- end -->`."""

from collections.abc import Mapping
from pathlib import Path


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Update the generated parts of a page."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, begin, rest = text.partition(f"<!-- made: {name} -->")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise ValueError(f"{page} has no marks for the generated part {name!r}")
        text = f"{before}{begin}\n\n{part}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")
