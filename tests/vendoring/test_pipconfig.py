"""What pip is told about indexes on this machine holds here too, in pip's own order of precedence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from vendoring_support import Server, serve

from tracer.errors import InputError
from tracer.source.pins import pins, projects
from tracer.vendoring import pipconfig
from tracer.vendoring.sync import SyncFailed, sync


def looked_in(settings: pipconfig.Settings) -> list[tuple[str, str]]:
    return [(place.url, place.named_by.text()) for place in settings.places]


def conf(folder: Path, text: str, name: str = "pip.conf") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_without_any_configuration_it_is_the_public_index() -> None:
    settings = pipconfig.read(environ={}, files=[])
    assert looked_in(settings) == [("https://pypi.org/simple", "pip's default; nothing else is configured")]
    assert (settings.cert, settings.proxy, settings.timeout) == (None, None, 15.0)


def test_files_name_indexes_links_certificates_proxy_and_time(tmp_path: Path) -> None:
    file = conf(
        tmp_path,
        "[global]\n"
        "index-url = https://mirror.example/simple/\n"
        "extra-index-url =\n    https://a.example/simple\n    https://b.example/simple\n"
        "find_links = /opt/wheels https://links.example/page.html\n"
        "trusted-host = mirror.example\n"
        "cert = /etc/ca.pem\nclient-cert = /etc/me.pem\nproxy = http://proxy.example:3128\ntimeout = 60\n",
    )
    settings = pipconfig.read(environ={}, files=[file])
    by = f"set by {file}"
    assert looked_in(settings) == [
        ("/opt/wheels", by),
        ("https://links.example/page.html", by),
        ("https://mirror.example/simple", by),
        ("https://a.example/simple", by),
        ("https://b.example/simple", by),
    ]
    assert settings.trusted_hosts == ("mirror.example",)
    assert (settings.cert, settings.client_cert) == ("/etc/ca.pem", "/etc/me.pem")
    assert (settings.proxy, settings.timeout) == ("http://proxy.example:3128", 60.0)


def test_stronger_settings_replace_weaker_ones(tmp_path: Path) -> None:
    system = conf(tmp_path, "[global]\nindex-url = https://1/simple\n[install]\nindex-url = https://3/simple\n", "a")
    user = conf(tmp_path, "[global]\nindex-url = https://2/simple\n", "b")
    download = conf(tmp_path, "[download]\nindex-url = https://4/simple\n", "c")
    environ = {"PIP_INDEX_URL": "https://5/simple"}

    def index(files: list[Path], environ: dict[str, str], given: str | None = None) -> str:
        return pipconfig.read(given, environ=environ, files=files).places[-1].url

    assert index([system, user], {}) == "https://3/simple"
    assert index([user], {}) == "https://2/simple"
    assert index([system, user, download], {}) == "https://4/simple"
    assert index([system, user, download], environ) == "https://5/simple"
    assert index([system, user, download], environ, "https://6/simple") == "https://6/simple"
    assert index([user], {"PIP_INDEX_URL": ""}) == "https://2/simple"


def test_no_index_leaves_only_links_unless_an_index_is_named() -> None:
    environ = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/opt/wheels"}
    assert looked_in(pipconfig.read(environ=environ, files=[])) == [("/opt/wheels", "set by PIP_FIND_LINKS")]
    named = pipconfig.read("https://mine/simple", environ=environ, files=[])
    assert [place.url for place in named.places] == ["/opt/wheels", "https://mine/simple"]


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        (
            {"PIP_TIMEOUT": "soon"},
            "pip's setting timeout is 'soon' (set by PIP_TIMEOUT); a value such as 15 was expected.",
        ),
        (
            {"PIP_NO_INDEX": "perhaps"},
            "pip's setting no-index is 'perhaps' (set by PIP_NO_INDEX); a value such as true | false was expected.",
        ),
    ],
)
def test_values_that_make_no_sense_are_errors(environ: dict[str, str], text: str) -> None:
    with pytest.raises(InputError) as caught:
        pipconfig.read(environ=environ, files=[])
    assert str(caught.value) == text


def test_a_file_that_is_no_configuration_is_an_error(tmp_path: Path) -> None:
    file = conf(tmp_path, "index-url = https://no.section/simple\n")
    with pytest.raises(InputError, match=f"pip's configuration file {file} cannot be read: "):
        pipconfig.read(environ={}, files=[file])


def test_a_certificate_file_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_CERT", "/no/such/ca.pem")
    with pytest.raises(InputError, match=r"The certificate file /no/such/ca\.pem, which pip's configuration names"):
        sync(["vllm"], folder=tmp_path)


def test_the_null_device_switches_configuration_files_off() -> None:
    assert pipconfig.config_files({"PIP_CONFIG_FILE": os.devnull}) == []


def test_a_named_file_takes_the_place_of_the_users_and_comes_last(tmp_path: Path) -> None:
    named = conf(tmp_path, "", "named.conf")
    files = pipconfig.config_files({"PIP_CONFIG_FILE": str(named)})
    assert files[-1] == named
    usual = pipconfig.config_files({})
    assert not {file for file in usual if Path.home() in file.parents} & set(files)


def test_the_files_are_those_that_pip_reads() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    run = subprocess.run(
        [sys.executable, "-m", "pip", "config", "debug"], env=environ, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        pytest.skip("pip is not installed here")
    listed = [line.strip().rpartition(", exists:")[0] for line in run.stdout.splitlines() if ", exists:" in line]
    assert {Path(path) for path in listed} == set(pipconfig.config_files({}))


def test_a_sync_asks_the_index_that_the_environment_names(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", server.url)
    with pytest.raises(SyncFailed) as caught:
        sync(["flash-attn"], folder=tmp_path)
    assert f"{server.url}: has no flash-attn." in str(caught.value)
    assert [(place.shown, place.named_by.text()) for place in caught.value.report.places] == [
        (server.url, "set by PIP_INDEX_URL")
    ]


def test_a_sync_asks_extra_indexes_and_links_of_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    with serve(Server()) as extra:
        file = conf(tmp_path, f"[global]\nindex-url={server.url}\nextra-index-url={extra.url}\nfind-links={links}\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
        with pytest.raises(SyncFailed) as caught:
            sync(["flash-attn"], folder=tmp_path / "files")
    assert [place.shown for place in caught.value.report.places] == [str(links), server.url, extra.url]
    for place in (str(links), server.url, extra.url):
        assert f"{place}: has no flash-attn." in str(caught.value)


def test_nothing_is_asked_where_everything_is_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", server.url)
    monkeypatch.setattr("tracer.vendoring.sync.satisfied", lambda *_: True)
    report = sync(folder=tmp_path / "files")
    assert sum(release.files for release in report.releases) == sum(len(pins(p)) for p in projects())
    assert server.log == []
    assert not (tmp_path / "files").exists()
