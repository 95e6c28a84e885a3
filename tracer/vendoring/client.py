"""An HTTP client set up as pip's configuration says, and which answers it got. Must not know: indexes, archives."""

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx2
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers.sync import PyPIClient

from tracer.errors import InputError
from tracer.vendoring.pipconfig import Settings

_CONNECT_SECONDS = 15.0  # no network must be a clear error soon, however patient the configuration is
_TRIES = 3
_PAUSE_SECONDS = 0.2
_CUT_OFF = (httpx2.ReadError, httpx2.RemoteProtocolError)  # worth another try; a refused connection is not
# Bytes as they are: a compressed transfer has no ranges and no length.
AS_IT_IS = {"Accept-Encoding": "identity"}

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """How a server answered one request."""

    status: int
    content_type: str


@dataclass
class Client:
    """An open connection pool, with the answers to every request so far in ``answers``."""

    http: PyPIClient
    answers: list[Answer] = field(default_factory=list)


@contextlib.contextmanager
def connect(settings: Settings) -> Iterator[Client]:
    """Yield a Client that uses the certificates, proxy, credentials and time limit of ``settings``.

    Raises InputError where a certificate file cannot be used.
    """
    answers: list[Answer] = []

    def remember(response: httpx2.Response) -> None:
        answers.append(Answer(response.status_code, response.headers.get("Content-Type", "")))

    indexes = [place.url for place in settings.places if place.is_index]
    with PyPIClient(
        trusted_hosts=settings.trusted_hosts,
        verify=_verification(settings),
        proxy=settings.proxy,
        timeout=httpx2.Timeout(settings.timeout, connect=min(settings.timeout, _CONNECT_SECONDS)),
        follow_redirects=True,
        mounts=dict(_trusted(settings)),
        auth=MultiDomainBasicAuth(prompting=False, index_urls=indexes),
        event_hooks={"response": [remember]},
    ) as http:
        yield Client(http, answers)


def patiently(attempt: Callable[[], T]) -> T:
    """Return what ``attempt`` returns, trying again where the server cut the answer off; raises its last error."""
    for failed in range(1, _TRIES):
        try:
            return attempt()
        except _CUT_OFF:
            time.sleep(_PAUSE_SECONDS * failed)
    return attempt()


def _trusted(settings: Settings) -> Iterator[tuple[str, httpx2.HTTPTransport]]:
    # PyPIClient reaches trusted hosts past every proxy; behind one, that is not at all
    for host in settings.trusted_hosts:
        environment = None if proxy_bypass(host) else getproxies().get("https") or getproxies().get("http")
        yield f"all://{host}", httpx2.HTTPTransport(verify=False, proxy=settings.proxy or environment)


def _verification(settings: Settings) -> ssl.SSLContext | bool:
    if settings.cert is None and settings.client_cert is None:
        return True
    try:
        context = ssl.create_default_context(cafile=settings.cert)
        if settings.client_cert is not None:
            context.load_cert_chain(settings.client_cert)
    except OSError as error:  # ssl.SSLError is one
        file = settings.client_cert if settings.cert is None else settings.cert
        raise InputError("vendor.certificate", file=file, detail=str(error)) from error
    return context
