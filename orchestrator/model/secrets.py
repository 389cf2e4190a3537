"""What must not be written down: secrets in variables; and in arguments, where they are refused."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator

REMOVED = "<removed>"

_SECRET = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|PRIVATE|KEY$|(API|ACCESS|SSH)_?KEY|PROXY$",
    re.IGNORECASE,
)
"""By the name. A proxy's address may hold a password."""

_PASSWORD_IN_URL = re.compile(r"://[^\s/@]*:[^\s/]+@|https?://[^\s/@]+@", re.IGNORECASE)
"""By the value, whatever its name. A token may stand alone before the `@` of a web address; the
name in `ssh://me@host` is none."""


_SECRET_FLAG = re.compile(
    r"--(?:.*[-_])?(?:token|password|passwd|secret|credentials?|api[-_]?key)(?:=.*)?",
    re.IGNORECASE,
)
"""A flag that is followed by a secret. `--max-num-batched-tokens` and `--tokenizer` are not."""


def _no_secret(args: Sequence[str]) -> Sequence[str]:
    """The arguments as they are.

    Raises:
        ValueError: One is a secret, by its flag or as an address with a password in it.
    """
    for argument in args:
        name = argument.partition("=")[0]
        if _SECRET_FLAG.fullmatch(argument) or _PASSWORD_IN_URL.search(argument):
            told = name if name.startswith("--") else "an address with a password"
            raise ValueError(
                f"{told}: a secret among the arguments would stand in the plan, in every report"
                " and in the machine's process list; give it to the server as a variable"
                " (VLLM_API_KEY, HF_TOKEN) in `environment` or by `inherit`"
            )
    return args


Arguments = Annotated[tuple[str, ...], AfterValidator(_no_secret)]
"""Of a server's command line, which anybody on the machine can read."""


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, with the value of each that may hold a secret replaced."""
    return {
        name: REMOVED
        if value and (_SECRET.search(name) or _PASSWORD_IN_URL.search(value))
        else value
        for name, value in environment.items()
    }
