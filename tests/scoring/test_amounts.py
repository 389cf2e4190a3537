"""The table of amounts: what each form says, and which forms say nothing."""

from decimal import Decimal

import pytest

from orchestrator.model.suite import Language
from orchestrator.scoring.amounts import Amount, read_amount


def amount(value: str, currency: str | None = None) -> Amount:
    """A value with its currency."""
    return Amount(Decimal(value), currency)


@pytest.mark.parametrize(
    ("language", "written", "expected"),
    [
        ("hu", "1 234,56 Ft", amount("1234.56", "HUF")),
        ("hu", "2\u00a0650\u00a0820 Ft", amount("2650820", "HUF")),
        ("hu", "2\u202f650\u202f820 Ft", amount("2650820", "HUF")),
        ("hu", "600 000 Ft-ot", amount("600000", "HUF")),
        ("hu", "10 000,- Ft", amount("10000", "HUF")),
        ("hu", "12.345 Ft", amount("12345", "HUF")),
        ("hu", "mínusz 202 440 Ft", amount("-202440", "HUF")),
        ("hu", "19 030,80 EUR", amount("19030.80", "EUR")),
        ("hu", "420000", amount("420000")),
        ("de", "1.234,56 EUR", amount("1234.56", "EUR")),
        ("de", "106.557,50 €", amount("106557.50", "EUR")),
        ("de", "1.234.567,89 €", amount("1234567.89", "EUR")),
        ("de", "-480,79 €", amount("-480.79", "EUR")),
        ("de", "−480,79 €", amount("-480.79", "EUR")),
        ("en", "€1,234.56", amount("1234.56", "EUR")),
        ("en", "EUR 97,718.40", amount("97718.40", "EUR")),
        ("en", "£6,850.00", amount("6850.00", "GBP")),
        ("en", "-£5.00", amount("-5.00", "GBP")),
        # One sign and three digits after it: the language decides.
        ("en", "1.234", amount("1.234")),
        ("de", "1.234", amount("1234")),
        ("hu", "1.234", amount("1234")),
        ("en", "1,234", amount("1234")),
        ("de", "1,234", amount("1.234")),
        # Another language's form that can mean one thing only.
        ("de", "1234.56", amount("1234.56")),
        ("de", "1,234.56 €", amount("1234.56", "EUR")),
        ("en", "1.234,56 EUR", amount("1234.56", "EUR")),
    ],
)
def test_an_amount_is_read(language: Language, written: str, expected: Amount) -> None:
    """Value and currency, to the last digit."""
    assert read_amount(written, language) == expected


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("hu", ""),
        ("hu", "Ft"),
        ("hu", "12 34 Ft"),
        ("hu", "1 234.567 Ft"),
        ("hu", "1 234 567,89,1 Ft"),
        ("de", "zwölf Euro"),
        ("de", "1.23.456 €"),
        ("de", "12.34.56"),
        ("en", "12/05/2025"),
        ("en", "3 items of 5 EUR"),
        ("en", "1,2,3"),
        ("en", "1,234.5.6"),
        ("en", "5 kg"),
        ("en", "EUR 5 GBP"),
        ("en", "EUR 5 to EUR 6"),
        ("en", "between 5 and 6 EUR"),
    ],
)
def test_what_is_no_single_amount_is_not_read(language: Language, written: str) -> None:
    """Nothing is guessed: two numbers, unknown words, groups that are not of three digits."""
    assert read_amount(written, language) is None
