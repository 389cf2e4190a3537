"""The table of dates: which day each form names, and which forms name none."""

import pytest

from orchestrator.model.suite import Language
from orchestrator.scoring.dates import read_date


@pytest.mark.parametrize(
    ("language", "written", "day"),
    [
        ("hu", "2026. november 30.", "2026-11-30"),
        ("hu", "2026. november 30", "2026-11-30"),
        ("hu", "2026. nov. 30.", "2026-11-30"),
        ("hu", "2026.11.30.", "2026-11-30"),
        ("hu", "2026. 11. 30.", "2026-11-30"),
        ("hu", "2026. szeptember 3-án", "2026-09-03"),
        ("hu", "2026. szeptember 11-ig", "2026-09-11"),
        ("hu", "hétfő, 2026. november 30.", "2026-11-30"),
        ("hu", "2026-11-30", "2026-11-30"),
        ("de", "30. November 2026", "2026-11-30"),
        ("de", "3. März 2026", "2026-03-03"),
        ("de", "30.11.2026", "2026-11-30"),
        ("de", "3.9.2026", "2026-09-03"),
        ("de", "Freitag, den 28. August 2026", "2026-08-28"),
        ("en", "30 November 2026", "2026-11-30"),
        ("en", "November 30, 2026", "2026-11-30"),
        ("en", "3rd September 2026", "2026-09-03"),
        ("en", "Thursday 27 August 2026", "2026-08-27"),
        ("en", "16/12/2025", "2025-12-16"),
        ("en", "12/05/2025", "2025-05-12"),  # day first, as the documents write
        ("en", "  3   September\n2026 ", "2026-09-03"),
    ],
)
def test_a_date_is_read(language: Language, written: str, day: str) -> None:
    """The day, whatever the form."""
    read = read_date(written, language)

    assert read is not None
    assert read.isoformat() == day


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("hu", ""),
        ("hu", "12"),
        ("hu", "november 30."),
        ("hu", "2026. november"),
        ("hu", "2026. XI. 30."),  # a form that is used, and that this reader does not know
        ("hu", "30. November 2026"),
        ("de", "31.02.2026"),
        ("de", "30.11.26"),
        ("de", "3. Smarch 2026"),
        ("de", "November 30, 2026"),
        ("en", "may"),
        ("en", "3 September"),
        ("en", "12/31/2025"),  # month first: not this language's order
        ("en", "30.11.2026"),
        ("en", "from 3 September 2026"),
        ("en", "2026-13-01"),
    ],
)
def test_what_names_no_day_is_not_read(language: Language, written: str) -> None:
    """No part is taken from today, no order of another language, no day that does not exist."""
    assert read_date(written, language) is None
