"""Every process that a tool has started, whoever its parent is by now."""

from contextlib import suppress

import psutil


class Household:
    """The processes below a tool, as far as they were there at a look.

    Neither a mark in the environment nor a session would do: an engine core writes its title over
    its environment, and a tool may die before its servers do.
    """

    def __init__(self, tool: int) -> None:
        self._tool = tool
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Note who is there now."""
        parents = {self._tool, *(process.pid for process in self.living())}
        for parent in parents:
            with suppress(psutil.Error):
                self._seen.update(psutil.Process(parent).children(recursive=True))

    def living(self) -> list[psutil.Process]:
        """Those that were seen and have not ended."""
        living = []
        for process in self._seen:
            with suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    living.append(process)
        return living

    def names(self) -> tuple[str, ...]:
        """Of the living: vLLM's own titles, or the module that an interpreter runs."""
        names = []
        for process in self.living():
            with suppress(psutil.Error):
                words = process.cmdline()
                modules = words[words.index("-m") + 1 :] if "-m" in words else []
                title = words[0] if words and words[0].startswith("VLLM::") else process.name()
                names.append(modules[0].rsplit(".", 1)[-1] if modules else title)
        return tuple(sorted(names))

    def engine_cores(self) -> list[psutil.Process]:
        """The processes in which models run are theirs to stop."""
        found = []
        for process in self.living():
            with suppress(psutil.Error):
                if process.cmdline()[:1] == ["VLLM::EngineCore"]:
                    found.append(process)
        return found

    def port(self) -> int | None:
        """Which a server of this household was told to serve; `None`: there is none yet."""
        for process in self.living():
            with suppress(psutil.Error):
                words = process.cmdline()
                if "--port" in words:
                    return int(words[words.index("--port") + 1])
        return None

    def end(self) -> None:
        """Kill who is left, and collect them."""
        left = self.living()
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=10)
