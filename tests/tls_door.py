"""A door with TLS in front of the Docker Engine's socket, with certificates of a test's own."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def make_certificates(folder: Path) -> None:
    """A CA, and what it signed for 127.0.0.1 and for one client, in Docker's file names."""
    folder.mkdir()

    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)

    openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=ca -keyout ca-key.pem -out ca.pem"
        " -addext keyUsage=critical,keyCertSign"
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name, begins in (("server", "server-"), ("client", "")):
        openssl(
            f"req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {begins}key.pem -out {name}.csr"
        )
        openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca-key.pem -days 1 -CAcreateserial"
            f" -extfile names -out {begins}cert.pem"
        )


@contextmanager
def tls_door(certificates: Path, port: int, to_socket: str) -> Iterator[None]:
    """Whoever comes with a client's certificate reaches the socket, until the block is left."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "server-cert.pem", certificates / "server-key.pem")
    listener = socket.create_server(("127.0.0.1", port))

    def accept() -> None:
        with suppress(OSError):  # the block is left
            while True:
                plain, _ = listener.accept()
                threading.Thread(
                    target=_let_in, args=(context, plain, to_socket), daemon=True
                ).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()


def _let_in(context: ssl.SSLContext, plain: socket.socket, to_socket: str) -> None:
    try:
        outside = context.wrap_socket(plain, server_side=True)
    except OSError:  # without a certificate
        plain.close()
        return
    with outside, socket.socket(socket.AF_UNIX) as inside:
        inside.connect(to_socket)
        back = threading.Thread(target=_pass_on, args=(inside, outside), daemon=True)
        back.start()
        _pass_on(outside, inside)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(2**16):
            target.sendall(content)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
