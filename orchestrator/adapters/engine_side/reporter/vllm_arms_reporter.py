"""A vLLM plugin: each process says which file a watched module was loaded from.

    vllm-arms: loaded {"module": …, "file": …, "sha256": …, "runs_file": …, "pid": …}

One line a process and module, written when the module has been executed and before anybody can
call it, so no request is answered by a module that was not reported. A process that is forked
afterwards has the module without importing it, and says so as well.

Changes nothing: no module is imported for the report's sake, and none is replaced. Runs under the
engine's interpreter, with the standard library alone.
"""  # noqa: INP001 - a folder that is put on PYTHONPATH, not a package

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

VARIABLE = "ARMS_WATCHED_MODULES"
"""Names of modules, with commas. Does not begin with VLLM_: vLLM warns of such it does not know."""


def register() -> None:
    """Watch the modules that the variable names. vLLM calls this once in a process."""
    watched = set(filter(None, os.environ.get(VARIABLE, "").split(",")))
    loaded = watched & set(sys.modules)
    for name in sorted(loaded):
        report(name)
    # First in line, since the finders after it would end the search.
    sys.meta_path.insert(0, _Watcher(watched - loaded))

    def report_again() -> None:
        for name in sorted(watched & set(sys.modules)):
            report(name)

    os.register_at_fork(after_in_child=report_again)


class _Watcher(MetaPathFinder):
    """Finds nothing itself; has each watched module reported by whatever loader it gets."""

    def __init__(self, waiting: set[str]) -> None:
        self._waiting = waiting

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._waiting:
            return None
        self._waiting.discard(name)  # the search that follows comes by here again
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_report(module: ModuleType) -> None:
            execute(module)
            report(name)

        # On this one module's loader, which so stays the kind that it is for everybody else.
        setattr(spec.loader, "exec_module", execute_and_report)  # noqa: B010 - no method's place
        return spec


def report(name: str) -> None:
    """Write the line of a module that is loaded, past Python's streams and their locks.

    vLLM puts the process's name before what goes through those; the id in the line says as much.
    """
    line = f"vllm-arms: loaded {json.dumps(_description(name))}\n"
    os.write(2, line.encode())


def _description(name: str) -> dict[str, object]:
    file = str(sys.modules[name].__file__)
    source = Path(file).read_bytes()
    return {
        "module": name,
        "file": file,
        "sha256": hashlib.sha256(source).hexdigest(),
        "runs_file": _loaded_code(name) == compile(source, file, "exec", dont_inherit=True),
        "pid": os.getpid(),
    }


def _loaded_code(name: str) -> object:
    """What the import system makes of the module: byte code where it takes that for valid."""
    spec = sys.modules[name].__spec__
    loader = None if spec is None else spec.loader
    return loader.get_code(name) if isinstance(loader, InspectLoader) else None
