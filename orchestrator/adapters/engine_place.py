"""Where the Docker Engine is that DOCKER_HOST names: on this machine, or on one reached by SSH."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.errors import HostError

SSH_VARIABLE = "VLLM_ARMS_SSH"
"""Names the machine of an engine that is reached by tcp: ssh://[USER@]HOST[:PORT]."""

_CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPlace:
    """A machine that is reached by SSH."""

    destination: str
    """As ssh takes it: HOST or USER@HOST; a name of ~/.ssh/config counts."""

    port: int | None
    """`None`: what ssh takes by itself."""

    socket: str | None
    """The engine's on that machine; `None`: the engine is reached by tcp."""


def engine_place(variables: Mapping[str, str] = os.environ) -> SshPlace | None:
    """The engine's machine; `None`: this one.

    Raises:
        HostError: DOCKER_HOST is no address, or one that is not safe or not enough.
    """
    address = variables.get("DOCKER_HOST", "")
    if address.startswith("ssh://"):
        return _place("DOCKER_HOST", address, socket="/var/run/docker.sock")
    if not address.startswith("tcp://"):
        return None
    _check_tls(address, variables)
    if SSH_VARIABLE not in variables:
        raise HostError(
            f"DOCKER_HOST={address}: a server's port is published on the engine's machine alone,"
            f" and reached by SSH: set {SSH_VARIABLE}=ssh://USER@HOST, or name the engine by"
            " DOCKER_HOST=ssh://USER@HOST, which needs no certificates"
        )
    return _place(SSH_VARIABLE, variables[SSH_VARIABLE], socket=None)


def _place(variable: str, address: str, *, socket: str | None) -> SshPlace:
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError as error:
        raise HostError(f"{variable}={address}: {error}") from error
    if parts.scheme != "ssh" or not parts.hostname or parts.password is not None:
        raise HostError(
            f"{variable}={parts.scheme}://{parts.hostname or ''}: it must be"
            " ssh://[USER@]HOST[:PORT], without a password: ssh takes a key or its agent"
        )
    if socket is not None and parts.path.strip("/"):
        socket = parts.path
    user, at, _ = parts.netloc.rpartition("@")
    return SshPlace(destination=f"{user}{at}{parts.hostname}", port=port, socket=socket)


def _check_tls(address: str, variables: Mapping[str, str]) -> None:
    if not variables.get("DOCKER_TLS_VERIFY"):
        raise HostError(
            f"DOCKER_HOST={address}: without TLS whoever reaches this port is root on that"
            " machine: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, or use DOCKER_HOST=ssh://…"
        )
    folder = Path(variables.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    missing = [name for name in _CERTIFICATES if not (folder / name).is_file()]
    if missing:
        raise HostError(
            f"DOCKER_CERT_PATH={folder}: {', '.join(missing)} is not there; an engine reached by"
            f" tcp is asked with TLS, for which {', '.join(_CERTIFICATES)} are needed"
        )
