"""Exact lengths in token ids: size expressions, and prompts composed to them.

Prompts are sent as token ids, so a length is exact by construction: nothing is encoded again on
the way, whatever the template.

    | prefix | document …             | question, schema …  annex | suffix |
    |<------------ shared ----------->|                                    |
    |<---------------------------- total -------------------------------->|

The prefix and the suffix are the profile's (chat template). The document is cut where the shared
part ends. A tail that is too long is cut; one that is too short goes on with the annex, which is
the document's own text from the cut on: real text, since low-entropy filler never shows the
effect.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def resolve(expression: str, *, block_tokens: int, limit_tokens: int | None = None) -> int:
    """The value of a size expression: integers, `block`, `limit`, `+ - * //` and parentheses.

    Args:
        expression: As the file has it.
        block_tokens: The value of `block`.
        limit_tokens: The value of `limit`; `None` where the expression must do without.

    Raises:
        ValueError: Anything else, or a result below 1; the message is for the file's author.
    """
    try:
        tree = ast.parse(expression, mode="eval")
        names = {"block": block_tokens}
        value = _evaluate(
            tree.body, names if limit_tokens is None else names | {"limit": limit_tokens}
        )
    except (SyntaxError, ZeroDivisionError) as error:
        raise ValueError(f"{expression!r} is no size: {error}") from error
    if value < 1:
        raise ValueError(f"{expression!r} is {value} tokens at block {block_tokens}; at least 1")
    return value


def _evaluate(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left, names), _evaluate(right, names))
    known = ", ".join(names)
    raise ValueError(f"{ast.unparse(node)!r}: a size is made of integers, {known}, + - * // and ()")


def compose(
    *,
    prefix: Sequence[int],
    document: Sequence[int],
    tail: Sequence[int],
    suffix: Sequence[int],
    shared_tokens: int,
    total_tokens: int,
) -> tuple[int, ...]:
    """One prompt of exactly `total_tokens`, the first `shared_tokens` of it document.

    Raises:
        ValueError: The lengths do not fit the document or each other; the message says by how
            many tokens.
    """
    of_document = shared_tokens - len(prefix)
    of_tail = total_tokens - shared_tokens - len(suffix)
    if of_document < 1:
        raise ValueError(f"shared: {shared_tokens} tokens do not exceed the prefix ({len(prefix)})")
    if of_tail < 1:
        raise ValueError(
            f"{total_tokens} tokens leave no room for a question after {shared_tokens} shared"
            f" tokens and a suffix of {len(suffix)}"
        )
    whole_tail = [*tail, *document[of_document:]]
    if len(document) < of_document or len(whole_tail) < of_tail:
        missing = max(of_document - len(document), of_tail - len(whole_tail))
        raise ValueError(f"the document is {missing} tokens too short for {total_tokens} tokens")
    return (*prefix, *document[:of_document], *whole_tail[:of_tail], *suffix)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two prompts have in common from the first one on."""
    for count, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return count
    return min(len(left), len(right))
