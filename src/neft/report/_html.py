"""The pieces that sections are made of. Everything that comes from outside is escaped here."""

from html import escape

from ._tables import Table


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def note(text: str) -> str:
    """A remark in small letters."""
    return f'<p class="note">{escape(text)}</p>'


def heading(text: str) -> str:
    """The title of a part of a section."""
    return f"<h3>{escape(text)}</h3>"


def answers(*pairs: tuple[str, str]) -> str:
    """Questions in bold, each with its answer in plain text."""
    items = "".join(f"<dt>{escape(question)}</dt><dd>{escape(answer)}</dd>" for question, answer in pairs)
    return f"<dl>{items}</dl>"


def code(text: str) -> str:
    """A line for the terminal."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(content: Table, *, kind: str = "") -> str:
    """A table that scrolls sideways where the page is narrow, with its notes below; without rows, the notes alone.

    One of the kind "records" is set row under row where the page is narrow instead: its cells are sentences.
    """
    notes = "".join(note(text) for text in content.notes)
    if not content.rows:
        return notes
    classes = [' class="number"' if numeric else "" for numeric in content.numeric]
    head = "".join(f'<th scope="col"{c}>{escape(name)}</th>' for name, c in zip(content.columns, classes, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{c} data-label="{escape(name)}">{escape(cell)}</td>'
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


def side_by_side(*pieces: str, narrow: bool = False) -> str:
    """Pieces in as many columns as the page has room for; `narrow` ones take less room."""
    # A table and its notes are one piece.
    return f'<div class="grid{" narrow" if narrow else ""}">{"".join(f"<div>{piece}</div>" for piece in pieces)}</div>'
