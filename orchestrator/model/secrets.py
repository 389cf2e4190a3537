"""What must not be written down: the values of variables that hold secrets."""

import re
from collections.abc import Mapping

REMOVED = "<removed>"

_SECRET = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|PRIVATE|KEY$|(API|ACCESS|SSH)_?KEY|PROXY$",
    re.IGNORECASE,
)
"""By the name. A proxy's address may hold a password."""

_PASSWORD_IN_URL = re.compile(r"://[^\s/@]*:[^\s/]+@")
"""By the value, whatever its name."""


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, with the value of each that may hold a secret replaced."""
    return {
        name: REMOVED
        if value and (_SECRET.search(name) or _PASSWORD_IN_URL.search(value))
        else value
        for name, value in environment.items()
    }
