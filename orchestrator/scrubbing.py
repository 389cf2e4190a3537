"""What must not leave a machine → stand-ins. Pure.

Two kinds of rule. Known texts (this machine's folders, host and user name) are handed in. Patterns
find what a text from any machine may hold. Patterns are exact rather than greedy: a log that is
scrubbed is judged again, and `max_tokens` is no secret.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern whose group `hide` gives way; the rest of the match stays."""

    stand_in: str
    meaning: str
    pattern: re.Pattern[str]


SECRETS = (
    Rule(
        stand_in="<secret>",
        meaning="a key, token or password",
        # NAME=value in a command, "NAME": "value" in JSON; upper case, as variables are named.
        pattern=re.compile(
            r"\b[A-Z][A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS)"
            r"\"?(?:=|:\s?)[\"']?(?P<hide>[^\s\"',<>]+)"
        ),
    ),
    Rule(
        stand_in="<secret>",
        meaning="a key, token or password",
        # --api-key value, --api-key=value, and the two as neighbours in a JSON list.
        pattern=re.compile(
            r"--(?:api-key|hf-token|token|password)(?:=|\s+|[\"'],\s*[\"'])(?P<hide>[^\s\"',<>]+)"
        ),
    ),
    Rule(
        stand_in="<secret>",
        meaning="a key, token or password",
        # Hugging Face, OpenAI, GitHub and AWS keys by their published shapes; bearer headers.
        pattern=re.compile(
            r"\b(?P<hide>hf_[A-Za-z]{30,}|sk-[\w-]{20,}|gh[pousr]_\w{30,}|AKIA[A-Z0-9]{16}"
            r"|(?<=[Bb]earer )[\w.~+/-]{12,}=*)"
        ),
    ),
    Rule(
        stand_in="<secret>",
        meaning="a key, token or password",
        pattern=re.compile(r"://(?P<hide>[^\s/:@\"']+:[^\s/@\"']+)@"),
    ),
    Rule(
        stand_in="<home>",
        meaning="a home folder",
        pattern=re.compile(r"(?P<hide>(?<![\w>.-])/(?:home|Users)/[^/\s\"':]+)"),
    ),
    Rule(
        stand_in="<home>",
        meaning="a home folder",
        pattern=re.compile(r"(?P<hide>(?<![\w>.-])/root)(?=[/\s\"':]|$)", re.MULTILINE),
    ),
)
"""For everything that is kept or passed on."""

PLACES = (
    Rule(
        stand_in="<path>",
        meaning="the folders of a path",
        # Two folders or more before the last part; pages of an API, devices and URLs stay.
        pattern=re.compile(
            r"(?<![\w>./-])(?P<hide>(?!/v1/|/dev/|/proc/)(?:/[^\s/\"':=,|<>()]+){2,})/"
        ),
    ),
    Rule(
        stand_in="<address>",
        meaning="a network address",
        pattern=re.compile(
            r"(?<![\w.-])(?P<hide>(?!127\.|0\.0\.0\.0)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}"
            r"(?:25[0-5]|2[0-4]\d|1?\d?\d))(?![\w.-])"
        ),
    ),
    Rule(
        stand_in="<mail>",
        meaning="a mail address",
        pattern=re.compile(r"(?P<hide>\b[\w.+-]+@[\w-]+\.[\w.-]*\w)"),
    ),
)
"""Besides, for a text that is published; in raw files they would change what is judged."""


class Scrubber:
    """Replaces, and counts by stand-in how often."""

    def __init__(self, known: Mapping[str, str], rules: Iterable[Rule] = SECRETS) -> None:
        """Longer known texts go first: a project may lie in a home folder."""
        texts = [item for item in known.items() if item[0]]  # a host may have no name
        texts.sort(key=lambda item: -len(item[0]))
        self._known = [(_pattern(text), stand_in) for text, stand_in in texts]
        self._rules = tuple(rules)
        stand_ins = [*known.values(), *(rule.stand_in for rule in self._rules)]
        self.counts: dict[str, int] = dict.fromkeys(stand_ins, 0)

    def clean(self, text: str) -> str:
        """The text without what must not leave."""
        for pattern, stand_in in self._known:
            text, count = pattern.subn(stand_in, text)
            self.counts[stand_in] += count
        for rule in self._rules:
            text, count = rule.pattern.subn(lambda match, rule=rule: _hidden(match, rule), text)  # type: ignore[misc]  # mypy cannot type a lambda's default
            self.counts[rule.stand_in] += count
        return text


def _pattern(known: str) -> re.Pattern[str]:
    """A path wherever it stands; a name as a word only: a host called `vm` is in many a word.

    A word may begin after a line feed as JSON writes it.
    """
    exact = re.escape(known)
    return re.compile(exact if "/" in known else rf"(?:(?<!\w)|(?<=\\[nrt])){exact}(?!\w)")


def _hidden(match: re.Match[str], rule: Rule) -> str:
    start, end = match.span("hide")
    return match.string[match.start() : start] + rule.stand_in + match.string[end : match.end()]
