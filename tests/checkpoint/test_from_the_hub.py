"""A hub id: each file comes when it is needed, nothing hangs, and the cache serves without network.

The hub is a server on this machine that answers as the real one does; no test leaves the machine.
"""

import hashlib
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

from tracer.checkpoint import hub
from tracer.checkpoint.open import open_checkpoint
from tracer.errors import InputError

COMMIT = "c0ffee" + "0" * 34
NAME = "org/small"


class Hub(ThreadingHTTPServer):
    """Serves one folder as the repository org/small; ``asked`` holds (method, file) in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder: Path | None = None
        self.asked: list[tuple[str, str]] = []
        self.error: str | None = None  # an X-Error-Code that the hub gives instead of an answer

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def downloads(self) -> list[str]:
        return [file for method, file in self.asked if method == "GET" and file]


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        repository, _, rest = self.path.removeprefix("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        self.server.asked.append((self.command, file))
        path = self.server.folder / file if self.server.folder else None
        error = self.server.error
        if repository != NAME:
            error = "RepoNotFound"
        elif revision not in ("main", "v1", COMMIT):
            error = "RevisionNotFound"
        elif error is None and (path is None or not path.is_file()):
            error = "EntryNotFound"
        if error:
            self.send_response(403 if error == "GatedRepo" else 404)
            self.send_header("X-Error-Code", error)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Hub]:
    server = Hub()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.chdir(tmp_path)  # where no folder org/small is
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    point_at(monkeypatch, server.address)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def point_at(monkeypatch, address: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")


def refusal(name: str = NAME, revision: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        open_checkpoint(name, revision=revision)
    return str(caught.value)


def test_only_the_shards_with_asked_tensors_are_downloaded(maker, server):
    server.folder = maker.shard()
    checkpoint = open_checkpoint(NAME)
    assert server.downloads == ["config.json", "model.safetensors.index.json"]
    checkpoint.require_layers(0)
    assert [file for file in server.downloads if file.endswith(".safetensors")] == ["model-00001-of-00003.safetensors"]
    checkpoint.embedding_rows([1])
    checkpoint.require_layers(2)
    assert [file for file in server.downloads if file.endswith(".safetensors")] == [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
    ]
    assert checkpoint.load(["model.norm.weight"])["model.norm.weight"].shape == (16,)


def test_facts_name_the_hub_id_and_the_exact_commit(maker, server):
    server.folder = maker.write()
    facts = open_checkpoint(NAME, revision="v1").facts()
    assert (facts.name, facts.revision) == (NAME, COMMIT)


def test_the_cached_snapshot_serves_offline(maker, server, monkeypatch):
    server.folder = maker.shard()
    open_checkpoint(NAME).require_layers(0)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    server.asked.clear()
    checkpoint = open_checkpoint(NAME)
    checkpoint.require_layers(0)
    assert checkpoint.facts().revision == COMMIT
    assert server.asked == []
    with pytest.raises(InputError, match=r'The file "model-00002-of-00003.safetensors" of org/small is not in the hub'):
        checkpoint.require_layers(1)
    with pytest.raises(InputError, match=r'The file "tokenizer.json" of org/small is not in the hub'):
        checkpoint.tokenizer()


def test_the_cached_snapshot_serves_where_the_hub_cannot_be_reached(maker, server, monkeypatch):
    server.folder = maker.write()
    open_checkpoint(NAME)
    point_at(monkeypatch, "http://127.0.0.1:9")
    open_checkpoint(NAME).require_layers(3)


def test_a_folder_of_that_name_wins(maker, server, tmp_path):
    (tmp_path / "org").mkdir()
    maker.folder = tmp_path / NAME
    maker.write()
    assert open_checkpoint(NAME).revision is None
    assert server.asked == []


def test_offline_and_not_in_the_cache(server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert refusal() == (
        "org/small is not in the hub's cache on this machine, and HF_HUB_OFFLINE forbids downloading it. "
        "Unset HF_HUB_OFFLINE, or download the checkpoint elsewhere and give its folder."
    )
    assert server.asked == []


def test_no_connection_is_told_at_once(server, monkeypatch):
    point_at(monkeypatch, "http://127.0.0.1:9")
    start = time.monotonic()
    sentence = refusal()
    assert time.monotonic() - start < 3
    assert sentence.startswith("org/small could not be downloaded from the Hugging Face hub (")
    assert sentence.endswith("Check the network and try again, or give a folder that holds the checkpoint.")


def test_a_hub_that_does_not_answer_is_given_up(server, monkeypatch):
    from socket import socket

    silent = socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    monkeypatch.setattr(hub, "SECONDS", 0.3)
    point_at(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
    start = time.monotonic()
    assert "could not be downloaded from the Hugging Face hub" in refusal()
    assert time.monotonic() - start < 3
    silent.close()


def test_the_network_going_away_in_between_is_told(maker, server, monkeypatch):
    server.folder = maker.shard()
    checkpoint = open_checkpoint(NAME)
    point_at(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(InputError, match="could not be downloaded from the Hugging Face hub"):
        checkpoint.require_layers(0)


@pytest.mark.parametrize(
    ("name", "error", "revision", "sentence"),
    [
        ("org/other", None, None, "The Hugging Face hub has no repository org/other that you may see"),
        (NAME, "GatedRepo", None, "org/small is gated"),
        (NAME, None, "v2", 'org/small has no revision "v2" on the hub'),
        (NAME, None, None, "org/small on the hub has no config.json"),
        (NAME, None, "../x", 'The revision "../x" has characters that no branch'),
        ("org/a--b..c", None, None, 'There is no checkpoint at "org/a--b..c"'),
    ],
)
def test_what_the_hub_refuses(server, tmp_path, name, error, revision, sentence):
    server.folder, server.error = tmp_path, error
    assert sentence in refusal(name, revision)


def test_a_missing_shard_on_the_hub(maker, server):
    server.folder = maker.shard()
    (maker.folder / "model-00002-of-00003.safetensors").unlink()
    checkpoint = open_checkpoint(NAME)
    checkpoint.require_layers(0)
    with pytest.raises(InputError, match=r'names the shard "model-00002-of-00003\.safetensors", but there is no such'):
        checkpoint.require_layers(1)


def test_a_stale_index_on_the_hub_is_found_when_the_shard_comes(maker, server):
    server.folder = maker.shard()
    place = {name: maker.shard_of(name) for name in maker.values}
    maker.write_index(place | {"model.layers.9.x.weight": "model-00001-of-00003.safetensors"})
    with pytest.raises(InputError, match="index and shards are not of the same version"):
        open_checkpoint(NAME).require_layers(0)


def test_no_weights_on_the_hub(maker, server):
    maker.write_config()
    server.folder = maker.folder
    assert "has a config.json but no weights" in refusal()


def test_the_tokenizer_comes_when_text_is_read(maker, server):
    server.folder = maker.write()
    checkpoint = open_checkpoint(NAME)
    assert "tokenizer.json" not in [file for _, file in server.asked]
    with pytest.raises(InputError, match="has no tokenizer"):
        checkpoint.tokenizer()


def test_a_folder_never_asks_the_hub(maker, server):
    checkpoint = open_checkpoint(str(maker.write()))
    checkpoint.load(checkpoint.tensors)
    with pytest.raises(InputError):
        checkpoint.tokenizer()
    assert server.asked == []
