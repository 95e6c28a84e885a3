"""Certificates, proxies and trusted hosts of pip's configuration hold for every request of a sync."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from vendoring_support import WHEEL, Server, release, serve, settings, wheel

from tracer.vendoring.pipconfig import Settings
from tracer.vendoring.records import Stage
from tracer.vendoring.sync import SyncFailed, sync_releases


def bring(root: Path, wanted: Settings) -> Stage | None:
    return sync_releases([release()], root, wanted, lambda _: None).releases[0].how


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate of 127.0.0.1 with its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed here")
    file = tmp_path / "loopback.pem"
    what = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1"]
    parts = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([openssl, "req", *what, *names, *parts], check=True, capture_output=True)
    file.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    """A package index on loopback behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serve(Server(files={WHEEL: wheel()}), context) as running:
        yield running


def test_an_index_with_a_certificate_of_its_own_needs_cert(secure: Server, certificate: Path, tmp_path: Path) -> None:
    plain = settings(secure.url)
    with pytest.raises(SyncFailed, match=f"{secure.url}: cannot be reached .*CERTIFICATE_VERIFY_FAILED"):
        bring(tmp_path / "files", plain)
    assert secure.log == []
    assert bring(tmp_path / "files", replace(plain, cert=str(certificate))) is Stage.RANGE


def test_the_certificate_of_a_trusted_host_is_not_asked_for(secure: Server, tmp_path: Path) -> None:
    assert bring(tmp_path, replace(settings(secure.url), trusted_hosts=("127.0.0.1",))) is Stage.RANGE


@pytest.mark.parametrize("trusted", [(), ("index.invalid",)])
def test_a_proxy_carries_every_request(server: Server, tmp_path: Path, trusted: tuple[str, ...]) -> None:
    host = "index.invalid" if trusted else "127.0.0.1:9"
    server.files[WHEEL] = wheel()
    behind = replace(settings(f"http://{host}/simple"), proxy=server.url.removesuffix("/simple"), trusted_hosts=trusted)
    assert bring(tmp_path, behind) is Stage.RANGE
    assert all(path.startswith(f"http://{host}/") for _, path, _ in server.log)


def test_a_proxy_of_the_environment_carries_trusted_hosts_too(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/simple"))
    server.files[WHEEL] = wheel()
    assert bring(tmp_path, replace(settings("http://index.invalid/simple"), trusted_hosts=("index.invalid",)))
    assert all(path.startswith("http://index.invalid/") for _, path, _ in server.log)
