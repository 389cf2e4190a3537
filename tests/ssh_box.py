"""An SSH server of a test's own on 127.0.0.1, and the `ssh` that has the key to it."""

import shutil
import socket
import subprocess
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")


class SshBox:
    """A machine that is reached by SSH alone."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.bin = folder / "bin"
        self.key = folder / "key"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Listen, until `stop`."""
        assert SSHD is not None
        with (self.folder / "sshd.log").open("ab") as said:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stderr=said,
            )
        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError((self.folder / "sshd.log").read_text())

    def stop(self) -> None:
        """Listen no more; connections that are there live on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def clients(self) -> list[int]:
        """Process ids of the `ssh` that were started for this box and still run."""
        marker = str(self.folder / "ssh_config").encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker in words:
                found.append(int(entry.name))
        return found


@contextmanager
def ssh_box(folder: Path, port: int) -> Iterator[SshBox]:
    """A box that runs; it stops with the block."""
    folder.mkdir(mode=0o700)
    box = SshBox(folder, port)
    for name in ("host_key", "key", "strange_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)],
            check=True,
        )
    (folder / "authorized_keys").write_text((folder / "key.pub").read_text())
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    (folder / "sshd_config").write_text(
        textwrap.dedent(f"""\
            ListenAddress 127.0.0.1
            Port {port}
            HostKey {folder}/host_key
            AuthorizedKeysFile {folder}/authorized_keys
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            PermitRootLogin yes
            StrictModes no
            UsePAM no
            PidFile none
        """)
    )
    (folder / "ssh_config").write_text(
        textwrap.dedent(f"""\
            IdentityFile {folder}/key
            IdentitiesOnly yes
            IdentityAgent none
            UserKnownHostsFile {folder}/known_hosts
            GlobalKnownHostsFile none
        """)
    )
    box.bin.mkdir()
    wrapper = box.bin / "ssh"  # ssh takes its settings from the account's home, whatever HOME says
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it
    box.start()
    try:
        yield box
    finally:
        box.stop()
