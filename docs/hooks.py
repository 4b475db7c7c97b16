"""
Hooks for mkdocs: the site may have pages from outside of `docs/`, and the nav may name folders.

Links of a page follow the paths of the repository, so they also work outside of the site. If the
nav or a link names a file outside of `docs/`, the file is added to the site under its own path:
Markdown becomes a page, other files are copied.
"""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
"""Matches the target of a link that leads to a file. The anchor is not part of the match."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace folders in the nav by their pages."""
    config.nav = _written_out(config.nav, Path(config.docs_dir))
    return config


def _written_out(nav: Any, docs: Path) -> Any:
    """Replace `folder/*` by the pages of the folder."""
    if isinstance(nav, dict):
        return {title: _written_out(each, docs) for title, each in nav.items()}
    if not isinstance(nav, list):
        return nav
    found = []
    for each in nav:
        if isinstance(each, str) and each.endswith("/*"):
            pages = sorted(page.relative_to(docs).as_posix() for page in docs.glob(f"{each}.md"))
            found += [page for page in pages if not page.endswith("/index.md")]
        else:
            found.append(_written_out(each, docs))
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of `docs/` that the nav and the links of pages name."""
    root = _root(config)

    def brought(path: str) -> list[File]:
        is_outside = not path.startswith(("..", "docs/")) and (root / path).is_file()
        if not is_outside or files.get_file_from_path(path) is not None:
            return []
        file = File.generated(config, path, abs_src_path=str(root / path))
        files.append(file)
        return [file]

    for name in _names(config.nav):
        brought(name)
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file.is_documentation_page():
            for target in _LINK.findall(file.content_string):
                waiting += brought(_in_repository(file, target, root))
    return files


def _names(nav: Any) -> Iterator[str]:
    """List the pages of the nav."""
    if isinstance(nav, str):
        yield nav
    for each in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _names(each)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that leave `docs/`, so that they point to their targets in the site."""
    file, root = page.file, _root(config)

    def in_site(found: re.Match[str]) -> str:
        there = _in_repository(file, found[1], root).removeprefix("docs/")
        if files.get_file_from_path(there) is None:
            return found[1]  # mkdocs reports the broken link
        return os.path.relpath(there, posixpath.dirname(file.src_uri) or ".")

    return _LINK.sub(in_site, markdown)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.docs_dir).parent


def _in_repository(file: File, target: str, root: Path) -> str:
    here = Path(str(file.abs_src_path)).parent.relative_to(root)
    return posixpath.normpath(here.as_posix() + "/" + target)
