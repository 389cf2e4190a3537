"""Are a model's files all there, and whole? Read are their names, indexes and headers alone."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import HostError

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json")
_INDEX = "*.safetensors.index.json"
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.safetensors")
"""How a model without an index would still say how many parts it has."""

_LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header, little-endian."""

_LARGEST_HEADER_BYTES = 100_000_000
"""The format's own limit; more is no header."""


def model_problems(folder: Path) -> tuple[str, ...]:
    """What of a model's folder is missing or cut short; empty when it is complete.

    Raises:
        HostError: Its weights are no safetensors, so that nothing can be said of them.
    """
    if not folder.is_dir():
        return (f"{folder} is no folder",)
    problems = []
    if not (folder / "config.json").is_file():
        problems.append("config.json is missing")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        problems.append("no tokenizer is there")
    return (*problems, *_weight_problems(folder))


def _weight_problems(folder: Path) -> Iterator[str]:
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for index in folder.glob(_INDEX):
        try:
            named = json.loads(index.read_bytes())["weight_map"]
        except (ValueError, KeyError) as error:
            yield f"{index.name} cannot be read: {error!r}"
            continue
        for tensor, file in named.items():
            wanted[file].add(tensor)
    for path in folder.glob("*.safetensors"):
        wanted[path.name] |= set()
        if part := _PART.fullmatch(path.name):
            for number in range(1, int(part["total"]) + 1):
                wanted[f"{part['stem']}-{number:05}-of-{part['total']}.safetensors"] |= set()
    if not wanted:
        raise HostError(f"{folder} has no *.safetensors file")
    for name, tensors in sorted(wanted.items()):
        problem = _file_problem(folder / name, tensors)
        if problem is not None:
            yield f"{name} {problem}"


def _file_problem(path: Path, tensors: set[str]) -> str | None:
    if not path.is_file():  # a link into a cache whose file was not downloaded is none either
        return "is missing"
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if header_bytes > min(size_bytes, _LARGEST_HEADER_BYTES):
            return f"is cut short or no safetensors file ({size_bytes} bytes)"
        try:
            header = json.loads(file.read(header_bytes))
            header.pop("__metadata__", None)
            end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"has no safetensors header: {error!r}"
    expected_bytes = _LENGTH_BYTES + header_bytes + end
    if size_bytes != expected_bytes:
        return f"has {size_bytes} bytes, its header says {expected_bytes}"
    if missing := tensors - header.keys():
        return f"lacks {len(missing)} tensors of the index, {min(missing)} for one"
    return None
