"""An amount of money as Hungarian, English or German letters write it → its value and currency.

Why no library: price-parser drops the sign, reads 12 out of "12/05/2025" and 3 out of "3 items of
5 EUR"; Babel's strict parser knows one form a locale and refuses `1 234,56` with an ordinary space,
as every one of the Hungarian documents writes it.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from orchestrator.model.suite import Language

_CURRENCIES = {
    "ft": "HUF", "huf": "HUF", "forint": "HUF",
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euró": "EUR",
    "£": "GBP", "gbp": "GBP", "$": "USD", "usd": "USD",
}  # fmt: skip

_DECIMAL_SIGN: dict[Language, str] = {"hu": ",", "en": ".", "de": ","}

_SPACES = "\u0020\u00a0\u2009\u202f"
"""Between groups: ordinary, no-break, thin, narrow no-break."""

_GROUPED = re.compile(rf"\d{{1,3}}(?:([{_SPACES}.,'’])\d{{3}})(?:\1\d{{3}})*")
_FORM = re.compile(
    rf"(?P<sign>[-−–]|mínusz |minus )?(?P<before>[^\W\d_]+|[€£$])? ?(?P<sign2>[-−–])?"
    rf"(?P<number>\d[\d{_SPACES}.,'’]*\d|\d)(?:,[-–])?-?"
    rf"[{_SPACES}]?(?P<after>[^\W\d_]+|[€£$])?(?P<ending>-[^\W\d_]{{1,4}})?\.?",
    re.IGNORECASE,
)
"""One number with one currency on either side; the ending is Hungarian: `600 000 Ft-ot`."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum, with its currency where one was named."""

    value: Decimal
    currency: str | None
    """`HUF`, `EUR`, `GBP` or `USD`."""


def read_amount(text: str, language: Language) -> Amount | None:
    """The one amount that a text names.

    A single sign with three digits after it separates thousands where it is not the language's
    decimal sign: `1.234` is a thousand-odd in German and one-odd in English.

    `None`: more or less than one number, an unknown word beside it, two currencies, or groups
    that are not of three digits.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    named = [word for word in (found["before"], found["after"]) if word]
    if len(named) > 1 or any(word.casefold() not in _CURRENCIES for word in named):
        return None
    value = read_number(found["number"], language)
    if value is None:
        return None
    negative = found["sign"] or found["sign2"]
    currency = _CURRENCIES[named[0].casefold()] if named else None
    return Amount(-value if negative else value, currency)


def read_number(text: str, language: Language) -> Decimal | None:
    """An unsigned number; `None` where its groups are not of three digits."""
    whole, fraction = _split(text, language)
    if not fraction.isdecimal() and fraction:
        return None
    if not whole.isdecimal() and _GROUPED.fullmatch(whole) is None:
        return None
    digits = "".join(character for character in whole if character.isdecimal())
    return Decimal(f"{digits}.{fraction}" if fraction else digits)


def _split(text: str, language: Language) -> tuple[str, str]:
    """What stands before the decimal sign, and the decimals."""
    signs = [character for character in text if character in ".,"]
    if not signs:
        return text, ""
    last = signs[-1]
    whole, _, rest = text.rpartition(last)
    if signs.count(last) > 1:
        return text, ""
    thousands = len(rest) == 3 and last != _DECIMAL_SIGN[language] and len(signs) == 1  # noqa: PLR2004 - a group
    return (text, "") if thousands else (whole, rest)
