"""Which flags a program knows, by its own help, and which of ours it does not. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

_OPTION_LINE = re.compile(r"^  (-.*)$", re.MULTILINE)
"""argparse writes each option's names on a line of their own, after two spaces; everything else
stands further to the right or at the margin."""

_NAME = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")

_FLAG = re.compile(r"--?[A-Za-z]")
"""What an argument that is a flag begins with; a negative number does not."""


@dataclass(frozen=True, slots=True)
class UnknownFlag:
    """A flag that a program would refuse, or worse, ignore."""

    flag: str
    nearest: str | None
    """The known flag whose spelling is nearest; `None`: none is near."""


def known_flags(help_text: str) -> frozenset[str]:
    """Every flag in the help of an argparse program; empty when it is not such a help."""
    lines = _OPTION_LINE.findall(help_text)
    # Two spaces end the names; what follows is the description, which may name other flags.
    return frozenset(name for line in lines for name in _NAME.findall(line.split("  ")[0]))


def unknown_flags(arguments: Iterable[str], known: frozenset[str]) -> tuple[UnknownFlag, ...]:
    """The flags among the arguments that are not known, each once, in their order.

    As vLLM's parser does, takes `_` for `-`, and `-cc.mode=3` for the key `mode` of `-cc`. Whether
    a value or such a key is known cannot be told from a program's help.
    """
    flags = dict.fromkeys(_name(argument) for argument in arguments if _FLAG.match(argument))
    return tuple(
        UnknownFlag(flag, next(iter(get_close_matches(flag, sorted(known), n=1)), None))
        for flag in flags
        if flag not in known and not _is_short_with_value(flag, known)
    )


def program(argv: Sequence[str]) -> list[str]:
    """What stands before the first flag of two hyphens: `python -m MODULE`, `vllm serve MODEL`."""
    end = next((i for i, argument in enumerate(argv) if argument.startswith("--")), len(argv))
    return list(argv[:end])


def _name(argument: str) -> str:
    name = argument.partition("=")[0].partition(".")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def _is_short_with_value(flag: str, known: frozenset[str]) -> bool:
    """`-O3` is the flag `-O` with the value 3."""
    return not flag.startswith("--") and flag[:2] in known and flag[2:].isdecimal()
