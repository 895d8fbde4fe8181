"""The pieces that sections are made of. Everything that comes from outside is escaped here."""

import re
from html import escape

from ._tables import Table

_INDEX = re.compile(r"(?<![\w-])(∇?[A-Zλχξθη])_([A-Za-z0-9⊥∥]{1,2})(?![\w(])")


def text(words: str) -> str:
    """Plain text, escaped; a letter with an index, such as C_W, has it below the line.

    >>> text("C_W < 2")
    'C<sub>W</sub> &lt; 2'
    """
    return _INDEX.sub(r"\1<sub>\2</sub>", escape(words))


def paragraph(words: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{text(words)}</p>"


def note(words: str) -> str:
    """A remark in small letters."""
    return f'<p class="note">{text(words)}</p>'


def heading(words: str) -> str:
    """The title of a part of a section."""
    return f"<h3>{escape(words)}</h3>"


def answers(*pairs: tuple[str, str]) -> str:
    """Questions in bold, each with its answer in plain text."""
    items = "".join(f"<dt>{text(question)}</dt><dd>{text(answer)}</dd>" for question, answer in pairs)
    return f"<dl>{items}</dl>"


def code(line: str) -> str:
    """A line for the terminal."""
    return f"<pre><code>{escape(line)}</code></pre>"


def _named(column: str) -> str:
    # A column of names needs no name to the eye.
    return text(column) or '<span class="unseen">what</span>'


def table(content: Table, *, kind: str = "") -> str:
    """A table that scrolls sideways where the page is narrow, with its notes below; without rows, the notes alone.

    One of the kind "records" is set row under row where the page is narrow instead: its cells are sentences.
    """
    notes = "".join(note(words) for words in content.notes)
    if not content.rows:
        return notes
    classes = [' class="number"' if numeric else "" for numeric in content.numeric]
    head = "".join(f'<th scope="col"{c}>{_named(name)}</th>' for name, c in zip(content.columns, classes, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{c} data-label="{escape(name)}">{text(cell)}</td>'
            for cell, c, name in zip(row, classes, content.columns, strict=True)
        )
        + "</tr>"
        for row in content.rows
    )
    title = escape(content.title)
    return (
        f'<div class="scroll {kind}" role="region" tabindex="0" aria-label="{title}"><table><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"
    )


def folded(summary: str, content: str) -> str:
    """What is shown when its one-line summary is opened."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def three(*pairs: tuple[str, str]) -> str:
    """Numbers in large letters, each with what it is."""
    items = "".join(f"<div><dt>{escape(what)}</dt><dd>{escape(number)}</dd></div>" for number, what in pairs)
    return f'<dl class="three">{items}</dl>'


def side_by_side(*pieces: str, narrow: bool = False) -> str:
    """Pieces in as many columns as the page has room for; `narrow` ones take less room."""
    # A table and its notes are one piece.
    return f'<div class="grid{" narrow" if narrow else ""}">{"".join(f"<div>{piece}</div>" for piece in pieces)}</div>'
