"""Observation → digests.

Scheme `d1` hashes, for each generated token in order: the chosen token id, then the top k
candidates as pairs of token id (unsigned 64-bit, little-endian) and log probability (IEEE-754
float32, little-endian). vLLM computes log probabilities in float32 and widens them to double
for JSON, and JSON text of a double reads back to the same double, so equal digests mean equal
bits, not close values. Latency, text and finish reason are left out.

Scheme `article` is the one that the published figures were made with: SHA-256 over the text
`token_id:N` and the log probability as `%.12g`, in the server's order. It exists so that those
figures can be set beside ours.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterable

from orchestrator.model.observation import Candidate, Observation, Position
from orchestrator.model.verdict import DifferenceKind, Digests

SCHEME = "d1"


def digests(observation: Observation) -> Digests:
    """The three digests of one answer, each 64 hexadecimal digits.

    `server_order` keeps the order of the lists, `id_order` sorts them by token id, `values`
    hashes the sorted log probabilities alone. The scheme's name is hashed first, so that a
    changed layout is never taken for a changed answer.
    """
    return Digests(
        scheme=SCHEME,
        server_order=_server_order(observation),
        id_order=_hash("ids", observation, _by_id),
        values=_hash_values(observation),
        article=_article(observation),
    )


def numeric_key(observation: Observation) -> bytes:
    """Equal for two answers exactly when their visible numbers are equal.

    Left out are the order of the list and, among candidates that tie at the cut, which of them
    were listed: both are the choice of a sort, not of the model (`order-only`, `tie-only`).
    """
    hasher = hashlib.sha256(b"numeric\0")
    for position in observation.positions:
        cut = position.cut
        above = [c for c in position.candidates if c.logprob > cut]
        hasher.update(struct.pack("<QQ", position.chosen.token_id, len(above)))
        hasher.update(_pack(sorted(above, key=_token_id)))
        hasher.update(struct.pack("<fQ", cut, len(position.candidates) - len(above)))
    return hasher.digest()


def difference_kind(left: Observation, right: Observation) -> DifferenceKind:
    """`identical`, `order-only`, `tie-only` or `numeric`; see rule 9 of `docs/verdicts.md`."""
    if _server_order(left) == _server_order(right):
        return "identical"
    if numeric_key(left) != numeric_key(right):
        return "numeric"
    same_members = all(
        Counter(a.candidates) == Counter(b.candidates)
        for a, b in zip(left.positions, right.positions, strict=True)
    )
    return "order-only" if same_members else "tie-only"


def _server_order(observation: Observation) -> str:
    return _hash("server", observation, lambda p: p.candidates)


def _token_id(candidate: Candidate) -> int:
    return candidate.token_id


def _by_id(position: Position) -> Iterable[Candidate]:
    return sorted(position.candidates, key=_token_id)


def _pack(candidates: Iterable[Candidate]) -> bytes:
    return b"".join(struct.pack("<Qf", c.token_id, c.logprob) for c in candidates)


def _hash(
    kind: str, observation: Observation, order: Callable[[Position], Iterable[Candidate]]
) -> str:
    hasher = hashlib.sha256(f"{SCHEME}\0{kind}\0".encode())
    for position in observation.positions:
        hasher.update(struct.pack("<QQ", position.chosen.token_id, len(position.candidates)))
        hasher.update(_pack(order(position)))
    return hasher.hexdigest()


def _hash_values(observation: Observation) -> str:
    hasher = hashlib.sha256(f"{SCHEME}\0values\0".encode())
    for position in observation.positions:
        values = sorted(candidate.logprob for candidate in position.candidates)
        hasher.update(struct.pack(f"<Q{len(values)}f", len(values), *values))
    return hasher.hexdigest()


def _article(observation: Observation) -> str:
    hasher = hashlib.sha256()
    for position in observation.positions:
        for candidate in position.candidates:
            hasher.update(f"token_id:{candidate.token_id} {candidate.logprob:.12g}\n".encode())
    return hasher.hexdigest()
