"""Draws boxes, arrows and squares as SVG, without scripts and external files."""

from html import escape

INK, FAINT, PAPER = "#20303a", "#5c7080", "#ffffff"
FILLS = {
    "ours": "#d7f0ec",
    "theirs": "#eef1f4",
    "object": "#fff4d6",
    "gone": "#f6dcdc",
}
OWNERS = ("#2a9d8f", "#e9a03b", "#6d83c9", "#d1603d", "#8f6bb0")
STYLE = (
    f"text{{font:14px sans-serif;fill:{INK}}}.small{{font-size:12px;fill:{FAINT}}}"
    ".title{font-weight:bold}.mid{text-anchor:middle}"
)
HEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
    f' markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
)


class Drawing:
    """A picture with its own background, so that it is readable on a dark page too."""

    def __init__(self, width: int, height: int) -> None:
        """Begin with the background."""
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}">',
            f"<style>{STYLE}</style>",
            HEAD,
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        ]

    def write(self, x: float, y: float, words: str, look: str = "") -> None:
        """Write a line of text. `look` is a CSS class: `small`, `title` or `mid`."""
        self._parts.append(f'<text x="{x}" y="{y}" class="{look}">{escape(words)}</text>')

    def box(
        self, x: int, y: int, width: int, height: int, kind: str, title: str, *lines: str
    ) -> None:
        """Draw a box with a title and smaller lines below it."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{FILLS[kind]}"'
            f' stroke="{INK}"/>'
        )
        top = y + (height - 17 * len(lines)) / 2 + 5
        self.write(x + width / 2, top, title, "title mid")
        for number, line in enumerate(lines, 1):
            self.write(x + width / 2, top + 17 * number, line, "small mid")

    def arrow(self, *points: tuple[int, int], dashed: bool = False) -> None:
        """Draw an arrow through these points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.4"{dash}'
            ' marker-end="url(#head)"/>'
        )

    def square(self, x: int, y: int, size: int, owner: int, *, is_moved: bool = False) -> None:
        """Draw a queue in its owner's colour. A queue that has moved gets a thick edge."""
        edge, width = (INK, 3) if is_moved else (PAPER, 1)
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="3" fill="{OWNERS[owner]}"'
            f' stroke="{edge}" stroke-width="{width}"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Draw a part of a bar."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'
        )

    def svg(self) -> str:
        """Return the SVG file."""
        return "\n".join([*self._parts, "</svg>"]) + "\n"
