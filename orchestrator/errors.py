"""Every error this package raises on purpose.

OrchestratorError
├── DefinitionError          a file of arms/ or launch_profiles/, or a flag, is wrong   exit 2
├── RunFolderError           a run folder lacks or contradicts what is asked of it      exit 2
├── HostError                machine, engine or disk is not usable                      exit 4
│   └── PreparationError     an engine could not be prepared; says how to go on         exit 4
└── ArmError                 one arm failed; the others still execute                   exit 4
    ├── ServerDiedError      the server ended by itself
    ├── ServerNotReadyError  not able to answer before a deadline
    ├── LowMemoryError       killed by us before the machine ran out of memory
    ├── WrongServerError     it answers, but it is not the server that was declared
    └── ProbeError           a request failed, or its answer is not what was asked for

InterruptedRunError          SIGINT or SIGTERM; raised in `cli`, everything is torn down  exit 130
"""


class OrchestratorError(Exception):
    """Base class; never raised itself."""

    exit_code = 70


class DefinitionError(OrchestratorError):
    """A definition cannot be used. The message names the file and the key, or the flag."""

    exit_code = 2

    def __init__(self, where: object, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class RunFolderError(OrchestratorError):
    """A run folder lacks what is asked of it, or contradicts itself; names the file."""

    exit_code = 2


class HostError(OrchestratorError):
    """This machine cannot do it: processor, memory, disk, engine."""

    exit_code = 4


class PreparationError(HostError):
    """An engine could not be prepared. The message says what failed and how to go on."""


class InterruptedRunError(BaseException):
    """The user or the system asked to stop.

    No `Exception`, as `KeyboardInterrupt` is none: it can come in the middle of any library, and
    docker-py takes every `Exception` while it connects for an engine that does not answer.
    """

    exit_code = 130


class ArmError(OrchestratorError):
    """One arm failed; base of the kinds below, never raised itself."""

    exit_code = 4


class ServerDiedError(ArmError):
    """The server ended by itself; also with exit code 0, as a vLLM whose engine died does."""


class ServerNotReadyError(ArmError):
    """The server was not able to answer in time."""


class LowMemoryError(ArmError):
    """The server was killed by us, before the machine ran out of memory."""


class WrongServerError(ArmError):
    """Something answers, but not the declared server: port, model, version or block size differ."""


class ProbeError(ArmError):
    """A request failed, or the answer is not what was asked for."""
