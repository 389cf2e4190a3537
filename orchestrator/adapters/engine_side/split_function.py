"""Run the align-split function of a vLLM's scheduler on its own, without importing vLLM.

The function is located in the source by its syntax tree, with every helper that it calls, and run
with plain stand-ins for the scheduler and the request. Nothing else of the file is executed.

Called with the path of a question, answers on standard output.

Asks:    {"package": folder of the vllm package, or null for the interpreter's own,
          "cases": [{"block_tokens", "token_budget", "speculative", "prompt_tokens", "start",
                     "new_tokens", "junction", "first"}, …]}
Answers: {"path", "version", "file_sha256", "function_sha256", "helpers", "scheduled": [tokens, …]}
         or {"refused": why}
"""

import ast
import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FUNCTION = "_mamba_block_aligned_split"
SCHEDULER = Path("v1/core/sched/scheduler.py")

PARAMETERS = {
    "self",
    "request",
    "num_new_tokens",
    "num_new_local_computed_tokens",
    "num_external_computed_tokens",
    "num_uncached_common_prefix_tokens",  # v0.24 and v0.25
}

CASE_FIELDS = (
    "block_tokens",
    "token_budget",
    "speculative",
    "prompt_tokens",
    "start",
    "new_tokens",
    "junction",
    "first",
)


class RefusedError(Exception):
    """The function cannot be run here; says why."""


def main() -> None:
    """Answer one question."""
    question = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        answer = _answer(_package(question["package"]), question["cases"])
    except RefusedError as refusal:
        answer = {"refused": str(refusal)}
    json.dump(answer, sys.stdout)


def _package(folder: str | None) -> Path:
    if folder is not None:
        return Path(folder)
    spec = importlib.util.find_spec("vllm")  # finds a top-level package without importing it
    if spec is None or spec.origin is None:
        raise RefusedError(f"{sys.executable} has no vllm package")
    return Path(spec.origin).parent


def _answer(package: Path, cases: list[dict[str, Any]]) -> dict[str, Any]:
    path = package / SCHEDULER
    if not path.is_file():
        raise RefusedError(f"{package} has no {SCHEDULER}")
    text = path.read_text(encoding="utf-8")
    function = _find(ast.parse(text), FUNCTION)
    if function is None:
        raise RefusedError(f"{path} has no {FUNCTION}: this vLLM splits nothing in align mode")
    _check_shape(function)
    parts = [(function, text), *_helpers(package, path, function)]
    shown = "\n\n".join(ast.get_source_segment(text, node) or "" for node, text in parts)
    split = _compiled([node for node, _ in parts])
    return {
        "path": str(path),
        "version": _version(package),
        "file_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "function_sha256": hashlib.sha256(shown.encode()).hexdigest(),
        "helpers": [node.name for node, _ in parts[1:]],
        "scheduled": [_run(split, function, case) for case in cases],
    }


def _version(package: Path) -> str | None:
    try:
        tree = ast.parse((package / "_version.py").read_text(encoding="utf-8"))
    except OSError:
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if "__version__" in names and isinstance(node.value.value, str):
                return node.value.value
    return None


def _find(tree: ast.AST, name: str) -> ast.FunctionDef | None:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[0] if len(found) == 1 else None


def _check_shape(function: ast.FunctionDef) -> None:
    """Refuse a function that asks for anything the stand-ins do not have."""
    asked = {argument.arg for argument in function.args.args} - PARAMETERS
    scheduler, request = _stand_ins(dict.fromkeys(CASE_FIELDS, 0))
    known = {"self": scheduler, "request": request}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            chain = ast.unparse(node).split(".")
            if chain[0] in known and not _reaches(known[chain[0]], chain[1:]):
                asked.add(".".join(chain))
    if asked:
        raise RefusedError(
            f"{FUNCTION} has an unknown shape: it asks for {', '.join(sorted(asked))}; "
            "this project has not read a release that does"
        )


def _reaches(root: object, names: list[str]) -> bool:
    for name in names:
        if not hasattr(root, name):
            return False
        root = getattr(root, name)
    return True


def _helpers(
    package: Path, path: Path, function: ast.FunctionDef
) -> list[tuple[ast.FunctionDef, str]]:
    """The functions that `function` calls by name, and those that they call."""
    text = path.read_text(encoding="utf-8")
    imported = {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found: list[tuple[ast.FunctionDef, str]] = []
    for name in sorted(_called(function)):
        source = _module(package, imported[name]) if name in imported else path
        helper_text = source.read_text(encoding="utf-8")
        helper = _find(ast.parse(helper_text), name)
        if helper is None:
            raise RefusedError(f"{FUNCTION} calls {name}, which {source} does not define once")
        found += [(helper, helper_text), *_helpers(package, source, helper)]
    return found


def _module(package: Path, dotted: str) -> Path:
    head, *rest = dotted.split(".")
    path = package.joinpath(*rest).with_suffix(".py")
    if head != package.name or not path.is_file():
        raise RefusedError(f"{FUNCTION} calls a function of {dotted}, which is no file of vLLM")
    return path


def _called(function: ast.FunctionDef) -> set[str]:
    builtin = {"max", "min", "range", "len", "int", "abs"}
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)} - builtin


def _compiled(parts: list[ast.FunctionDef]) -> Callable[..., int]:
    for part in parts:
        part.decorator_list = []
        part.returns = None
        for argument in (*part.args.args, *part.args.kwonlyargs):
            argument.annotation = None  # names of types that are not here
    module = ast.fix_missing_locations(ast.Module(body=list(parts), type_ignores=[]))
    scope: dict[str, Any] = {}
    exec(compile(module, FUNCTION, "exec"), scope)  # noqa: S102 - this process is the engine's
    split: Callable[..., int] = scope[FUNCTION]
    return split


def _stand_ins(case: dict[str, Any]) -> tuple[SimpleNamespace, SimpleNamespace]:
    """A scheduler and a request with what the known releases read of them."""
    block, first = case["block_tokens"], case["first"]
    scheduler = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=block),
        scheduler_config=SimpleNamespace(long_prefill_token_threshold=0),
        block_size=block,
        hash_block_size=block,
        max_num_scheduled_tokens=case["token_budget"],
        use_eagle=case["speculative"],
        use_eagle_block_drop=case["speculative"],
        num_hash_lookahead_tokens=0,
        mamba_has_prefill_checkpoint_blocks=False,
        mamba_prefill_checkpoint_alignment=None,
        mamba_partial_cache_hit=False,
        mamba_fine_grained_prefix_cache=False,
        mamba_shared_prefix_checkpoint=False,
    )
    request = SimpleNamespace(
        num_computed_tokens=0 if first else case["start"],
        num_prompt_tokens=case["prompt_tokens"],
        num_tokens=case["prompt_tokens"],
        num_output_tokens=0,
        shared_prefix_boundary=case["junction"] or 0,
    )
    return scheduler, request


def _run(split: Callable[..., int], function: ast.FunctionDef, case: dict[str, Any]) -> int:
    scheduler, request = _stand_ins(case)
    if "self.num_hash_lookahead_tokens" in ast.unparse(function) and case["speculative"]:
        # As Scheduler.__init__ of v0.33: hashes that look ahead make the block drop needless.
        scheduler.num_hash_lookahead_tokens, scheduler.use_eagle_block_drop = 1, False
    extra: dict[str, int] = {}
    if case["first"]:
        extra["num_new_local_computed_tokens"] = case["start"]
        if "num_uncached_common_prefix_tokens" in {a.arg for a in function.args.args}:
            extra["num_uncached_common_prefix_tokens"] = max(
                (case["junction"] or 0) - case["start"], 0
            )
    return split(scheduler, request, case["new_tokens"], **extra)


if __name__ == "__main__":
    main()
