"""A cell → one Python file that repeats it: `standalone/repeat_cell.py`, filled in."""

import json
import re
import textwrap
from pathlib import Path

from orchestrator.adapters.standalone import repeat_cell
from orchestrator.model.sharing import RepeatableCell

_COLUMNS = 96


def repro_file(cell: RepeatableCell) -> str:
    """The program's source with the cell in it, in lines of at most 100 columns of numbers."""
    source = Path(repeat_cell.__file__).read_text(encoding="utf-8")
    place = f"CELL = {json.dumps(repeat_cell.CELL)}\n"
    before, found, after = source.partition(place)
    if not found:
        raise AssertionError(place)  # the two files are of one package
    return f'{before}CELL = r"""\n{_as_text(cell)}\n"""\n{after}'


def _as_text(cell: RepeatableCell) -> str:
    """JSON, in which three quotes never meet, with lists of numbers as paragraphs."""
    return re.sub(r"\[\s*(\d[\d,\s]*?)\s*\]", _paragraph, cell.model_dump_json(indent=2))


def _paragraph(numbers: re.Match[str]) -> str:
    lines = textwrap.fill(" ".join(numbers[1].split()), _COLUMNS)
    return f"[\n{lines}\n]"
