"""The tables of `docs/log-facts.md`, made from the rules and the corpus.

`python -m tests.serverlog.page` prints them.
"""

import re
import sys
from dataclasses import replace

from orchestrator.serverlog.rules import Rule
from orchestrator.serverlog.scan import TABLES
from tests.serverlog.corpus import ENTRIES


def facts_table() -> str:
    """Fact by fact: the message that states it, who writes it, and where it was seen."""
    rows = [
        f"| {_code(names)} | {_code([_shown(rule)])} | {rule.source} | {_seen_in('facts', rule)} |"
        for rule in TABLES.facts
        for names in [[*rule.says, *rule.parse]]
    ]
    return "\n".join(
        ["| Fact | Message begins with | Written by | Seen in |", "|---|---|---|---|", *rows]
    )


def findings_table() -> str:
    """Finding by finding: messages and exceptions that are one."""
    rows = [
        f"| `{rule.name}` | {rule.severity} | {_code([_shown(rule)])} | {rule.source}"
        f" | {_seen_in('findings', rule)} |"
        for rule in TABLES.findings
    ] + [
        f"| {_code([rule.name or 'start_failed', *(() if rule.name else ('engine_dead',))])}"
        f" | fatal if it ended a process, else {rule.severity_when_logged}"
        f" | {_code([_shown(rule)])} | {rule.source} | {_seen_in('exceptions', rule)} |"
        for rule in TABLES.exceptions
    ]
    return "\n".join(
        [
            "| Finding | Severity | Message begins with | Written by | Seen in |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def _seen_in(kind: str, rule: Rule) -> str:
    """The origins of the entries that need this rule."""
    others = tuple(other for other in getattr(TABLES, kind) if other is not rule)
    tables = replace(TABLES, **{kind: others})
    origins = [
        entry.origin
        for entry in ENTRIES
        if rule.starts in entry.text and entry.scan(tables) != entry.scan()
    ]
    return "; ".join(dict.fromkeys(re.sub(r"^recorded: |; .*", "", origin) for origin in origins))


def _shown(rule: Rule) -> str:
    """The beginning; where it is short, with what follows, values left out."""
    if len(rule.starts) > len("Starting vLLM "):
        return rule.starts
    return re.sub(r"\(\?P<\w+>[^()]*\)", "…", rule.starts + rule.rest)


def _code(words: list[str]) -> str:
    """As code, in a cell of a Markdown table."""
    return ", ".join(f"`{word.strip()}`".replace("|", r"\|") for word in words)


if __name__ == "__main__":
    sys.stdout.write(f"{facts_table()}\n\n{findings_table()}\n")
