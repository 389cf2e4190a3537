"""The page that users read says what the rules do."""

from pathlib import Path

from tests.serverlog.page import facts_table, findings_table

PAGE = Path(__file__).parents[2] / "docs" / "log-facts.md"


def test_the_page_of_facts_is_up_to_date() -> None:
    """`python -m tests.serverlog.page` prints the tables that belong into it."""
    page = PAGE.read_text("utf-8")

    assert facts_table() in page
    assert findings_table() in page
