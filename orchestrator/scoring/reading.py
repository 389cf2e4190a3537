"""A value as an answer gives it → its canonical text, by the kind of its field."""

import unicodedata

from orchestrator.model.suite import FieldKind, Language
from orchestrator.scoring.amounts import read_amount
from orchestrator.scoring.dates import read_date


def canonical(written: str, kind: FieldKind, language: Language) -> str | None:
    """Equal for two texts exactly when they say the same; `None` when one says nothing readable.

    A text in small letters with single spaces and without the quotation marks around it; a date as
    `2026-11-30`; an amount as `1234.56 EUR`, without its zeros at the end, and without a currency
    where none was named.
    """
    match kind:
        case "text":
            plain = " ".join(unicodedata.normalize("NFC", written).split()).strip("\"'„“”»«")
            return plain.casefold() or None
        case "date":
            day = read_date(written, language)
            return None if day is None else day.isoformat()
        case "amount":
            amount = read_amount(written, language)
            if amount is None:
                return None
            value = f"{amount.value.normalize():f}"
            return value if amount.currency is None else f"{value} {amount.currency}"


def same(said: str, expected: str, kind: FieldKind) -> bool:
    """Whether two canonical texts agree; an amount need not repeat the currency."""
    if kind == "amount" and " " not in said:
        return said == expected.partition(" ")[0]
    return said == expected
