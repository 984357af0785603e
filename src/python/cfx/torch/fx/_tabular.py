"""A table of plain text, in the form that print_tabular has."""
import re

_NUMBER = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")


def _is_number(text):
    return bool(_NUMBER.match(text)) or text in ("inf", "-inf", "nan")


def table(rows, headers):
    """Columns with two blanks between them, a line of dashes below the headers; columns of numbers
    are put to the right."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    columns = list(zip(*texts)) if texts else [()] * len(headers)
    right = [bool(c) and all(_is_number(t) for t in c) for c in columns]
    widths = []
    for header, column in zip(headers, columns):
        lines = [line for text in column for line in text.split("\n")]
        widths.append(max([len(header) + (2 if lines else 0)] + [len(line) for line in lines]))

    def line(cells):
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right)]
        return "  ".join(padded).rstrip()

    out = [line(headers), "  ".join("-" * w for w in widths)]
    for row in texts:
        cells = [text.split("\n") for text in row]
        for i in range(max(map(len, cells), default=0)):
            out.append(line([c[i] if i < len(c) else "" for c in cells]))
    return "\n".join(out)
