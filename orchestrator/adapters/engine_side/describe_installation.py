"""Says what an interpreter would import, without importing it: JSON on standard output.

Runs under the engine's interpreter, with the standard library alone, and reads files: importing
torch takes seconds, and a start that follows must find nothing changed.
"""

import ast
import importlib.util
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

DISTRIBUTIONS = (
    "vllm", "torch", "triton", "transformers", "numpy", "flashinfer-python", "safetensors",
)  # fmt: skip

HOME = Path(os.environ.get("HOME", "/root"))
CACHES = {
    "vllm": Path(os.environ.get("VLLM_CACHE_ROOT", HOME / ".cache" / "vllm")),
    "inductor": Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", HOME / ".cache" / "torchinductor")),
    "triton": Path(os.environ.get("TRITON_CACHE_DIR", HOME / ".triton" / "cache")),
}


def main() -> None:
    """Print the description."""
    vllm, torch = _folder("vllm"), _folder("torch")
    built = _constants(vllm, "_version.py")
    torch_built = _constants(torch, "version.py")
    description = {
        "python": platform.python_version(),
        "packages": _versions(),
        "vllm_folder": vllm,
        "vllm_commit": built.get("__commit_id__") or os.environ.get("VLLM_BUILD_COMMIT"),
        "torch_cuda": torch_built.get("cuda"),
        "torch_commit": torch_built.get("git_version"),
        "compiled": {name: _content(folder) for name, folder in CACHES.items()},
    }
    sys.stdout.write(json.dumps(description))


def _folder(package: str) -> str | None:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else None


def _versions() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _constants(folder: str | None, file: str) -> dict[str, object]:
    """Names that a module assigns a literal to."""
    if folder is None or not (Path(folder) / file).is_file():
        return {}
    found: dict[str, object] = {}
    for node in ast.parse((Path(folder) / file).read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant):
            found |= {t.id: value.value for t in targets if isinstance(t, ast.Name)}
    return found


def _content(folder: Path) -> dict[str, int] | None:
    if not folder.is_dir():
        return None
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return {"files": len(sizes), "size_bytes": sum(sizes)}


if __name__ == "__main__":
    main()
