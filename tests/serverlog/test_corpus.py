"""The rules against the corpus: the right facts, no false finding, and no rule without a use."""

from dataclasses import replace

import pytest

from orchestrator.serverlog.rules import Rule, Tables
from orchestrator.serverlog.scan import TABLES
from tests.serverlog.corpus import ENTRIES, HEALTHY, LOGS, Entry, Log, in_words, scan_bytes

KINDS = ("facts", "findings", "introductions", "exceptions")
RULES = [(kind, rule) for kind in KINDS for rule in getattr(TABLES, kind)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.text.splitlines()[-1][-60:])
def test_a_line_says_what_it_says_and_nothing_else(entry: Entry) -> None:
    """Facts and findings of each entry are exactly those written beside it."""
    scan = entry.scan()

    assert {fact.name: fact.value for fact in scan.facts} == entry.facts
    assert in_words(scan) == entry.findings


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.root_cause])
def test_a_pointer_to_something_above_is_followed(entry: Entry) -> None:
    """A message that only says that something failed is not the root cause; the thing is."""
    root_cause = entry.scan().root_cause

    assert root_cause is not None
    assert root_cause.excerpt == entry.root_cause


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_a_whole_log_gives_the_right_facts_and_findings(log: Log) -> None:
    """Facts that matter have their values, others are absent, and every finding is a true one."""
    scan = scan_bytes(log.content)

    assert {name: scan.value(name) for name in log.facts} == log.facts
    assert {name: scan.value(name) for name in log.absent} == dict.fromkeys(log.absent)
    assert in_words(scan) == log.findings


@pytest.mark.parametrize("log", [log for log in LOGS if log.root_cause], ids=lambda log: log.name)
def test_the_root_cause_is_the_first_one(log: Log) -> None:
    """Of a server that failed, the first cause is named, not the generic last line."""
    root_cause = scan_bytes(log.content).root_cause

    assert root_cause is not None
    assert root_cause.excerpt.startswith(log.root_cause or "?")


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log.name)
def test_a_healthy_log_has_nothing_fatal_however_it_was_shipped(log: Log) -> None:
    """Log shippers' timestamps in front of every line do not make a healthy server a dead one."""
    stamp = b"2026-11-30T18:05:14.123456789Z stderr F "
    shipped = b"".join(stamp + line for line in log.content.splitlines(keepends=True))

    scan = scan_bytes(shipped)

    assert scan.root_cause is None
    assert {name: scan.value(name) for name in log.facts} == log.facts


@pytest.mark.parametrize(
    ("kind", "rule"), RULES, ids=[f"{kind}: {rule.starts}{rule.rest}" for kind, rule in RULES]
)
def test_no_rule_can_be_left_out(kind: str, rule: Rule) -> None:
    """Without this rule, some entry of the corpus is not told rightly any more."""
    others = tuple(other for other in getattr(TABLES, kind) if other is not rule)
    tables: Tables = replace(TABLES, **{kind: others})

    assert not all(entry.is_told_by(entry.scan(tables)) for entry in ENTRIES)


def test_the_corpus_is_as_large_as_it_says() -> None:
    """At least sixty lines and a dozen whole logs come from real servers."""
    recorded = [entry for entry in ENTRIES if entry.origin.startswith("recorded")]

    assert sum(len(entry.text.splitlines()) for entry in recorded) >= 60
    assert len(LOGS) >= 12


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.origin[:60])
def test_each_entry_says_where_it_comes_from(entry: Entry) -> None:
    """Recorded, or marked as a quotation."""
    assert entry.origin.partition(":")[0] in {"recorded", "issue-quoted", "source-quoted"}
