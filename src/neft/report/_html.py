"""The pieces that sections are made of. Everything that comes from outside is escaped here."""

from html import escape

from ._tables import Table


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def table(content: Table) -> str:
    """A table that scrolls sideways where the page is narrow, with its notes below; without rows, the notes alone."""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in content.notes)
    if not content.rows:
        return notes
    classes = [' class="number"' if numeric else "" for numeric in content.numeric]
    head = "".join(f'<th scope="col"{c}>{escape(name)}</th>' for name, c in zip(content.columns, classes, strict=True))
    rows = "".join(
        f"<tr>{''.join(f'<td{c}>{escape(cell)}</td>' for cell, c in zip(row, classes, strict=True))}</tr>"
        for row in content.rows
    )
    title = escape(content.title)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"
    )


def side_by_side(*pieces: str) -> str:
    """Pieces in as many columns as the page has room for."""
    return f'<div class="grid">{"".join(pieces)}</div>'
