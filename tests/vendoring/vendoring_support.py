"""Small archives, pins for what is in them, and a package index on loopback that can misbehave in every way."""

import base64
import contextlib
import gzip
import hashlib
import io
import json
import re
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tracer.source.pins import Pin
from tracer.texts import message
from tracer.vendoring.pipconfig import Place, Settings
from tracer.vendoring.records import Release

FILES = {"demo/attention.py": b"scale = head_dim**-0.5\n" * 50, "demo/layers/norm.py": b"eps = 1e-6\n" * 30}
WHEEL = "demo_pkg-1.0-py3-none-any.whl"
SDIST = "demo_pkg-1.0.tar.gz"


def pin(member: str, content: bytes, *, version: str = "1.0", archive: str = "wheel", path: str = "") -> Pin:
    """Return a pin of ``content``."""
    return Pin(
        project="demo",
        package="demo-pkg",
        version=version,
        archive=archive,
        member=member,
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        git_blob="0" * 40,
        licence="MIT",
        repository="owner/demo",
        commit="1" * 40,
        tag=None,
        path=path or f"src/{member}",
        same_until_line=None,
        note="",
    )


def release(
    files: Mapping[str, bytes] = FILES, *, version: str = "1.0", archive: str = "wheel", project: str = "demo"
) -> Release:
    """Return a release that pins ``files``."""
    pins = tuple(pin(member, content, version=version, archive=archive) for member, content in files.items())
    return Release(project, version, pins)


def wheel(files: Mapping[str, bytes] = FILES, *, padding: int = 300_000) -> bytes:
    """Return a wheel with ``files`` and incompressible padding, so that whole and ranges differ in size."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        noise = hashlib.shake_128(b"padding").digest(padding)
        archive.writestr("demo/kernels.so", noise)
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr("demo_pkg-1.0.dist-info/METADATA", "Name: demo-pkg\nVersion: 1.0\n")
    return out.getvalue()


def sdist(
    files: Mapping[str, bytes] = FILES, *, top: str = "demo_pkg-1.0/", extra: Sequence[tarfile.TarInfo] = ()
) -> bytes:
    """Return a gzipped tar archive with ``files`` below ``top``, and a setup.py that must never run."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in {"setup.py": b"raise SystemExit('setup.py was run')\n", **files}.items():
            entry = tarfile.TarInfo(top + name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for entry in extra:
            archive.addfile(entry)
    return gzip.compress(plain.getvalue(), mtime=0)


@dataclass
class Server:
    """A package index on loopback: ``files`` are what it has, the other fields how it behaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: str = "all"  # all | no suffix | none | other (gives a range that was not asked for)
    hashes: bool = True
    page: tuple[int, str, bytes] | None = None  # what it answers instead of an index page
    as_json: bool = False
    cut_after: int | None = None  # closes the connection after so many bytes of an archive
    cut_times: int = 1_000_000  # how many times it does
    wrong_hash: bool = False
    statuses: dict[str, int] = field(default_factory=dict)  # file name → HTTP status
    before_file: Callable[[], None] = lambda: None
    password: str | None = None
    log: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, Range
    sent: int = 0
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/simple"

    def asked_whole(self) -> int:
        """How many times an archive was asked for without a range."""
        return sum(path.startswith("/files/") and not asked for _, path, asked in self.log)

    def index_page(self, package: str) -> tuple[int, str, bytes]:
        if self.page is not None:
            return self.page
        names = [name for name in self.files if name.replace("_", "-").startswith(f"{package}-")]
        if not names:
            return 404, "text/plain", b"no such package"
        digests = {name: hashlib.sha256(self.files[name]).hexdigest() for name in names}
        if self.wrong_hash:
            digests = dict.fromkeys(names, "0" * 64)
        if self.as_json:
            listed = [
                {"filename": name, "url": f"/files/{name}", "hashes": {"sha256": digests[name]} if self.hashes else {}}
                for name in names
            ]
            page = {"meta": {"api-version": "1.0"}, "name": package, "files": listed}
            return 200, "application/vnd.pypi.simple.v1+json", json.dumps(page).encode()
        marks = {name: f"#sha256={digests[name]}" if self.hashes else "" for name in names}
        anchors = "".join(f'<a href="/files/{name}{marks[name]}">{name}</a>\n' for name in names)
        return 200, "text/html", f"<!DOCTYPE html><html><body>{anchors}</body></html>".encode()


@contextlib.contextmanager
def serve(server: Server, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run ``server`` on a free port of loopback, behind ``tls`` if it is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, server)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with contextlib.suppress(ConnectionResetError, ssl.SSLError):
                super().handle()

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.port = http.server_address[1]
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
        server.scheme = "https"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _answer(request: BaseHTTPRequestHandler, server: Server) -> None:
    asked = request.headers.get("Range", "")
    server.log.append((request.command, request.path, asked))
    if server.password and f":{server.password}" not in _credentials(request):
        return _send(request, server, 401, {"WWW-Authenticate": "Basic"}, b"")
    path = urlsplit(request.path).path  # a proxy is given whole URLs
    if path.startswith("/simple/"):
        status, kind, body = server.index_page(path.removeprefix("/simple/").strip("/"))
        return _send(request, server, status, {"Content-Type": kind}, body)
    name = path.removeprefix("/files/")
    server.before_file()
    body = server.files.get(name, b"")
    status = server.statuses.get(name, 200 if name in server.files else 404)
    if status != 200:
        return _send(request, server, status, {}, b"")
    span = _span(asked, len(body), server.ranges)
    if span is None:  # whoever asked for a range will not read all this
        return _send(request, server, 200, {}, body, is_file=not asked)
    first, last = span
    headers = {"Content-Range": f"bytes {first}-{last}/{len(body)}"}
    return _send(request, server, 206, headers, body[first : last + 1], is_file=True)


def _span(asked: str, size: int, ranges: str) -> tuple[int, int] | None:
    if suffix := re.fullmatch(r"bytes=-(\d+)", asked):
        first, last = max(0, size - int(suffix[1])), size - 1
        if ranges == "no suffix":
            return None
    elif plain := re.fullmatch(r"bytes=(\d+)-(\d+)", asked):
        first, last = int(plain[1]), min(int(plain[2]), size - 1)
    else:
        return None
    if ranges == "none":
        return None
    return (0, min(9, size - 1)) if ranges == "other" else (first, last)


def _credentials(request: BaseHTTPRequestHandler) -> str:
    return base64.b64decode(request.headers.get("Authorization", "").removeprefix("Basic ")).decode()


def _send(
    request: BaseHTTPRequestHandler,
    server: Server,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    is_file: bool = False,
) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if is_file and server.cut_after is not None and server.cut_times > 0 and len(body) > server.cut_after:
        server.cut_times -= 1
        body = body[: server.cut_after]
        request.close_connection = True
    try:
        request.wfile.write(body)
    except (BrokenPipeError, ConnectionResetError):
        return
    server.sent += len(body) if is_file else 0


def settings(*indexes: str, links: Sequence[str] = ()) -> Settings:
    """Return settings that look in ``links`` and ``indexes`` and nowhere else."""
    by = message("vendor.by", where="the test")
    places = [Place(link, False, by) for link in links] + [Place(url, True, by) for url in indexes]
    return Settings(places=tuple(places), timeout=5.0)


def laid_out(root: Path) -> dict[str, bytes]:
    """Return all files below ``root`` except the lock: name → bytes."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
