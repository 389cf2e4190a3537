"""Sizes and prompts: exact in token ids before anything starts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.errors import DefinitionError
from orchestrator.model.experiment import Document, Experiment, Task
from orchestrator.model.plan import PromptPlan, Selection
from orchestrator.model.profile import LaunchProfile
from orchestrator.sizing import common_prefix, compose, resolve

Encode = Callable[[str], Sequence[int]]

_READY_TOKENS_OF_A_BLOCK = 2
"""The readiness probe is half a block long: shorter than a block, so that it caches nothing."""

SAMPLE_CHARACTERS = 400
"""Enough text to tell two tokenizers apart."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The lengths of a run, in tokens."""

    key: str
    """Where they stand in the experiment's file."""

    shared: int
    b: int
    a: tuple[int, ...]
    prime: int | None


def resolve_sizes(
    experiment: Experiment, profile: LaunchProfile, where: str, selection: Selection
) -> Sizes:
    """The sizes of an experiment on a profile's grid.

    Raises:
        DefinitionError: Names the key that cannot be resolved.
    """
    block_tokens = profile.block_size_tokens
    table, asked = experiment.sizes_on(profile.listed_as)

    def size(key: str, expression: str) -> int:
        try:
            return resolve(expression, block_tokens=block_tokens)
        except ValueError as error:
            raise DefinitionError(where, f"{table}.{key}: {error}") from error

    lengths = tuple(size("a", expression) for expression in asked.a)
    if len(set(lengths)) != len(lengths):
        raise DefinitionError(where, f"{table}.a: two entries are equal at block {block_tokens}")
    return Sizes(
        key=table,
        shared=size("shared", asked.shared),
        b=size("b", asked.b),
        a=lengths if selection == "full" or asked.scan else lengths[:1],
        prime=None if asked.prime is None else size("prime", asked.prime),
    )


def ready_prompt(document: Document, profile: LaunchProfile, encode: Encode) -> PromptPlan:
    """The readiness probe's: the document's beginning, shorter than a block."""
    tokens = profile.block_size_tokens // _READY_TOKENS_OF_A_BLOCK
    return PromptPlan(document=document.name, token_ids=tuple(encode(document.text)[:tokens]))


class Prompts:
    """The table of prompts, keyed `document/request`, each exact in token ids."""

    def __init__(self, profile: LaunchProfile, sizes: Sizes, encode: Encode) -> None:
        self.table: dict[str, PromptPlan] = {}
        self.sample = ""
        self.sample_ids: tuple[int, ...] = ()
        self.sizes = sizes
        self._encode = encode
        self._prefix = tuple(encode(profile.prompt_prefix)) if profile.prompt_prefix else ()
        self._suffix = tuple(encode(profile.prompt_suffix)) if profile.prompt_suffix else ()
        self._profile = profile

    def add_panel_document(self, document: Document, where: str) -> None:
        """A at each of its lengths, and B; checked to share exactly the shared part."""
        b = self._compose(document, document.b, self.sizes.b, where, "b")
        self.table[f"{document.name}/b"] = b
        for length in self.sizes.a:
            a = self._compose(document, document.a, length, where, "a")
            common = common_prefix(a.token_ids, b.token_ids)
            if common != self.sizes.shared:
                raise DefinitionError(
                    f"arms/documents/{document.name}.toml",
                    f"a.question, b.question: A and B have {common} tokens in common instead of"
                    f" {self.sizes.shared}; the two questions must begin with different tokens",
                )
            self.table[f"{document.name}/a{length}"] = a
        if self.sizes.prime is not None:
            self._add_prime(document, self.sizes.prime, where)

    def _add_prime(self, document: Document, length: int, where: str) -> None:
        """The document itself, without a question."""
        ids = (*self._prefix, *self._encode(document.text))[:length]
        if len(ids) < length:
            problem = f"{self.sizes.key}.prime: {document.name} has {len(ids)} tokens only"
            raise DefinitionError(where, problem)
        self.table[f"{document.name}/prime"] = PromptPlan(document=document.name, token_ids=ids)

    def add_warm_up(self, document: Document, where: str) -> None:
        """Unrelated prompts of A's and B's exact lengths, and the readiness probe's."""
        for length in {*self.sizes.a, self.sizes.b}:
            key = f"{document.name}/warm-up{length}"
            self.table[key] = self._compose(document, document.a, length, where, "a")
        self.table["ready"] = ready_prompt(document, self._profile, self._encode)
        self.sample = document.text[:SAMPLE_CHARACTERS]
        self.sample_ids = tuple(self._encode(self.sample))

    def _compose(
        self, document: Document, task: Task, total: int, where: str, key: str
    ) -> PromptPlan:
        try:
            ids = compose(
                prefix=self._prefix,
                document=self._encode(document.text),
                tail=self._encode(f"{task.question}\n\n{task.response_schema}\n\n"),
                suffix=self._suffix,
                shared_tokens=self.sizes.shared,
                total_tokens=total,
            )
        except ValueError as error:
            raise DefinitionError(
                where, f"{self.sizes.key}.{key}: {document.name}: {error}"
            ) from error
        return PromptPlan(document=document.name, token_ids=ids)
