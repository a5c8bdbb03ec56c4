"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], notes: Iterable[str] = ()) -> str:
    """Returns a table as HTML. The first column of each row is its heading."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = []
    for row in rows:
        first, *others = (escape(str(cell)) for cell in row)
        cells = "".join(f"<td>{cell}</td>" for cell in others)
        body.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
            f"</table>{below}")


def figure(value: float | None) -> str:
    """Returns a number with three significant digits, as the tables of the program; ``-`` if it is unknown."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
