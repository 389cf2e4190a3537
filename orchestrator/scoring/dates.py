"""A date as Hungarian, English or German letters write it → the day; anything else → nothing.

Why no library: dateparser takes a missing part from today ("12" is a day of this month, "may" one
of May) and does not read "Freitag, den 28. August 2026"; Babel parses numeric forms only. Names of
months and days are Babel's, from CLDR.
"""

import re
from datetime import date

from babel import Locale

from orchestrator.model.suite import Language

_ISO = re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})")
_SUFFIX = r"(?:-[^\W\d_]{1,4})?"
"""Hungarian endings: `3-án`, `30-ig`, `2-tól`."""

_FORMS: dict[Language, tuple[re.Pattern[str], ...]] = {
    "hu": (
        re.compile(rf"(?P<y>\d{{4}})\. ?(?P<m>\d{{1,2}})\. ?(?P<d>\d{{1,2}})(?:\.|{_SUFFIX})"),
        re.compile(rf"(?P<y>\d{{4}})\. ?(?P<name>[^\W\d_]+)\.? (?P<d>\d{{1,2}})(?:\.|{_SUFFIX})"),
    ),
    "de": (
        re.compile(r"(?P<d>\d{1,2})\. ?(?P<m>\d{1,2})\. ?(?P<y>\d{4})"),
        re.compile(r"(?P<d>\d{1,2})\. ?(?P<name>[^\W\d_]+)\.? (?P<y>\d{4})"),
    ),
    "en": (
        # Day first: the documents are British and Irish, and one of them says 16/12/2025.
        re.compile(r"(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>\d{4})"),
        re.compile(r"(?P<d>\d{1,2})(?:st|nd|rd|th)? (?:of )?(?P<name>[^\W\d_]+)\.?,? (?P<y>\d{4})"),
        re.compile(r"(?P<name>[^\W\d_]+)\.? (?P<d>\d{1,2})(?:st|nd|rd|th)?,? (?P<y>\d{4})"),
    ),
}


def read_date(text: str, language: Language) -> date | None:
    """The day that a text names, with or without the day of the week before it.

    `None`: it names none, not in a form of this language, not completely, or not one that exists.
    """
    plain = _without_weekday(" ".join(text.split()), language)
    for form in (_ISO, *_FORMS[language]):
        found = form.fullmatch(plain)
        if found is not None:
            return _day(found, language)
    return None


def _day(found: re.Match[str], language: Language) -> date | None:
    parts = found.groupdict()
    month = int(parts["m"]) if parts.get("m") else _month(parts["name"], language)
    if month is None:
        return None
    try:
        return date(int(parts["y"]), month, int(parts["d"]))
    except ValueError:
        return None  # the 31st of February


def _month(name: str, language: Language) -> int | None:
    months = Locale(language).months["format"]
    for width in ("wide", "abbreviated"):
        for number, known in months[width].items():
            if known.rstrip(".").casefold() == name.casefold():
                return int(number)
    return None


def _without_weekday(text: str, language: Language) -> str:
    days = Locale(language).days["format"]
    names = [name for width in ("wide", "abbreviated") for name in days[width].values()]
    told = "|".join(re.escape(name.rstrip(".")) for name in names)
    return re.sub(rf"^(?:{told})\.?,? (?:(?:the|den|dem) )?", "", text, flags=re.IGNORECASE)
