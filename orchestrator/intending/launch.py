"""The command line of a vLLM server → what it asks for. Flags that nobody compares are passed over.

Follows `vllm/utils/argparse_utils.py`, FlexibleArgumentParser.parse_args, of 0.29.0: underscores
stand for hyphens, the last of several values counts, and `--config.key value` makes a JSON object
of its own that replaces one given whole. What a file behind `--config` says is not known here.
"""

import json
import re
from collections.abc import Mapping, Sequence

from orchestrator.model.intent import Value

SHORT_FORMS = {
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-sc": "--speculative-config",
}
"""Source: `vllm/engine/arg_utils.py`, EngineArgs.add_cli_args."""

CONFIGS = tuple(SHORT_FORMS.values())

_MULTIPLIERS = {
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
}  # fmt: skip
"""Source: `vllm/utils/argparse_utils.py`, human_readable_int."""


class Launch:
    """What one start's command line and variables say, by vLLM's own names."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._flags: dict[str, str] = {}
        self._configs: dict[str, dict[str, object]] = {}
        dotted: dict[str, dict[str, object]] = {}
        for name, value in _pairs(argv):
            flag, dot, path = name.partition(".")
            if dot:
                _put(dotted.setdefault(flag, {}), path.split("."), value)
            elif flag in CONFIGS:
                self._configs[flag] = _object(value)
            else:
                self._flags.pop(flag, None)  # so that the order is that of the last mention
                self._flags[flag] = value
        self._configs |= dotted

    def text(self, flag: str) -> str | None:
        """A flag's value as it stands there."""
        return self._flags.get(flag)

    def tokens(self, flag: str) -> Value | None:
        """A flag's number of tokens, as in 8192, 8k or 8K; `auto` for -1 and for the word."""
        given = self._flags.get(flag)
        return None if given is None else tokens(given)

    def switch(self, flag: str) -> Value | None:
        """`on` for `--flag`, `off` for `--no-flag`; the later one counts."""
        name = flag.removeprefix("--")
        given = [each for each in self._flags if each in (flag, f"--no-{name}")]
        return None if not given else ("on" if given[-1] == flag else "off")

    def config(self, flag: str, key: str) -> Value | None:
        """A value inside a JSON object, such as `cudagraph_mode` of `--compilation-config`."""
        found = self._configs.get(flag, {}).get(key)
        return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def tokens(text: str) -> Value | None:
    """A number of tokens in one of vLLM's notations; `None` when it is none of them."""
    if text.lower() in ("auto", "-1"):
        return "auto"
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kKmMgGtT]?)", text.strip())
    if match is None or ("." in match[1] and match[2] not in "kmgt"):
        return None
    number = float(match[1]) if "." in match[1] else int(match[1])
    return int(number * _MULTIPLIERS.get(match[2], 1))


def _pairs(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Every option with the word after it, or after its `=`; a switch's word is meaningless."""
    pairs = []
    for word, following in zip(argv, (*argv[1:], ""), strict=False):
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        head, dot, path = name.partition(".")
        head = SHORT_FORMS.get(head, head.replace("_", "-"))
        pairs.append((head + dot + path, value if equals else following))
    return pairs


def _object(text: str) -> dict[str, object]:
    """A JSON object; empty when the text is none, which vLLM refuses to start with."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _put(target: dict[str, object], path: Sequence[str], text: str) -> None:
    """Set a value below nested objects; text that is no JSON is a string."""
    *parents, last = path
    for key in parents:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        target = inner
    try:
        target[last] = json.loads(text)
    except ValueError:
        target[last] = text
