"""A container: which image, what it may use of the machine, and the labels that name its owner."""

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from orchestrator.model.record import Record

ImageId = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""Of an image on one engine: the hash of its configuration, which names its layers."""

Platform = Literal["linux/amd64", "linux/arm64"]


def _absolute(path: str) -> str:
    # A trimmed run has `<cache>` and the like for the beginnings of its machine's paths.
    if not PurePosixPath(path).is_absolute() and not path.startswith("<"):
        raise ValueError("must be an absolute path")
    return path


AbsolutePath = Annotated[str, AfterValidator(_absolute)]


class DigestPin(Record):
    """An image by the digest of its manifest: the same bytes on every machine."""

    kind: Literal["digest"]

    reference: Annotated[str, StringConstraints(pattern=r"^\S+@sha256:[0-9a-f]{64}$")]
    """As `docker pull` takes it."""

    obtain: str | None = None
    """The command that brings the image to the engine, for messages; absent: `docker pull`."""


class LocalPin(Record):
    """An image by its id on this machine's engine; what a locally built image can be pinned by."""

    kind: Literal["local"]
    id: ImageId
    obtain: str | None = None


class TagPin(Record):
    """An image by a name that may stand for another one tomorrow.

    Resolved once for a run, so that its arms share one image, and recorded. Not a pin where
    results of different days are compared: `is_pinned`.
    """

    kind: Literal["tag"]
    reference: Annotated[str, StringConstraints(pattern=r"^[^\s@]+$")]

    digest_begins: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{0,64}$")] | None = (
        None
    )
    """As much of the manifest's digest as is known; another image is refused. `sha256:` alone wants
    any, so an image from a registry and not one that was built here."""

    obtain: str | None = None


ImagePin = Annotated[DigestPin | LocalPin | TagPin, Field(discriminator="kind")]


def stated(image: DigestPin | LocalPin | TagPin) -> str:
    """The pin in one word, as the engine takes it."""
    return image.id if isinstance(image, LocalPin) else image.reference


def is_pinned(image: DigestPin | LocalPin | TagPin) -> bool:
    """Whether the pin stands for one image for ever."""
    return not isinstance(image, TagPin)


class Gpus(Record):
    """The GPUs that a container is given, by number of devices or by their ids."""

    count: int | Literal["all"] | None = None

    device_ids: tuple[str, ...] = ()
    """Index or UUID, as `nvidia-smi -L` lists them."""

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.count is None) == (not self.device_ids):
            raise ValueError("give either count or device_ids")
        if isinstance(self.count, int) and self.count < 1:
            raise ValueError("count: must be 1 or more")
        return self


class Ulimit(Record):
    """One resource limit of a container's processes; -1 is unlimited."""

    soft: int = Field(ge=-1)
    hard: int = Field(ge=-1)


class Mount(Record):
    """A file or folder of the engine's machine that the container sees."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: bool = True


Capability = Literal[
    "AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE",
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL",
    "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN",
    "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP",
    "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE",
    "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG",
    "WAKE_ALARM",
]  # fmt: skip
"""All of capabilities(7), Linux 6.18, without `CAP_`."""

LimitName = Literal[
    "as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc",
    "rss", "rtprio", "rttime", "sigpending", "stack",
]  # fmt: skip
"""All of getrlimit(2), as in /etc/security/limits.conf."""


class Resources(Record):
    """What a container may use of the machine, beyond what every container of ours gets."""

    gpus: Gpus | None = None

    shared_memory_bytes: int = Field(ge=2**20)
    """Size of /dev/shm. Docker's own default, 64 MiB, is less than vLLM wants at all (160 MiB)."""

    memory_bytes: int | None = Field(default=None, ge=6 * 2**20)
    """Past it the kernel kills; swap is not added. `None`: the machine's memory. 6 MiB is the
    engine's own minimum."""

    ipc: Literal["private", "host"] = "private"

    ulimits: dict[LimitName, Ulimit] = Field(default_factory=dict)
    """By the name in /etc/security/limits.conf, such as `memlock` (bytes) or `nofile` (files)."""

    capabilities: tuple[Capability, ...] = ()
    """Without `CAP_`, such as `SYS_PTRACE`. Every other one is dropped."""

    new_privileges: bool = False
    """Whether a program may gain privileges by its file's mode; no vLLM needs it."""

    mounts: tuple[Mount, ...] = ()
    """Beside the model's."""


class PutFile(Record):
    """A file of ours that is copied into a container before it starts."""

    source: AbsolutePath
    target: AbsolutePath


class ContainerPlan(Record):
    """What a start in a container has beside its command and its variables."""

    image: str
    """Of every arm of the run: an id where the engine was asked, else the pin as declared."""

    declared: str
    """The pin, as the profile states it."""

    platform: Platform

    python: str = "python3"
    """The image's interpreter, with which it is looked into."""

    resources: Resources

    mounts: tuple[Mount, ...]
    """The model's, the tokenizer's, and the profile's own."""

    files: tuple[PutFile, ...] = ()
    """Copied, not mounted, so that the engine may be on another machine than their source."""
