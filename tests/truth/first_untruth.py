"""Judge the built runs until one is judged untruly, and print which; nothing when none is."""

import sys

from tests.truth.built import Case, untruths
from tests.truth.families import built_cases


def main() -> None:
    """Called with a mutated judge."""
    for case in built_cases():
        problem = _first(case)
        if problem is not None:
            sys.stdout.write(f"{case.family}, {case.name}\n")
            return


def _first(case: Case) -> str | None:
    try:
        return next(untruths(case), None)
    except Exception as error:  # noqa: BLE001 - a judge that breaks down has been noticed too
        return repr(error)


if __name__ == "__main__":
    main()
