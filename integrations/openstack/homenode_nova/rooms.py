"""What each host's homenode answers to GET /v1/room, kept for some seconds.

A host that is silent never stops who asks: it has no answer, which is said in one line of the
log when it begins and one when it ends. All hosts are asked at once, and no longer than within.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import http.client
import json
import logging
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Mapping, Optional

from homenode_nova import fit

MOST_BYTES = 4 << 20  # an answer of 64 nodes and 4,096 CPUs has 400 KiB
REST = 10.0  # seconds after which a silent host is asked again: dead ones must not keep all workers busy


@dataclasses.dataclass(frozen=True)
class Reader:
    """How homenode is asked over TCP, with what the daemon's api: wants of readers."""

    ca_file: str = ""  # signs the daemons' certificates; "" the system's
    cert_file: str = ""  # our own, which the daemons' client_ca has signed
    key_file: str = ""
    token_file: str = ""
    timeout: float = 1.0  # seconds, for the whole request

    def __call__(self, url: str) -> fit.Room:
        """Asks one host. OSError or ValueError when it has no answer."""
        at = urllib.parse.urlsplit(url)
        end = time.monotonic() + self.timeout
        where = at.hostname or ""
        try:
            port = at.port
        except ValueError as err:
            raise ValueError(f"{url}: {err}") from err
        if at.scheme == "https":
            # No proxy and no redirect: the host itself is meant.
            c: http.client.HTTPConnection = http.client.HTTPSConnection(
                where, port, timeout=self.timeout, context=self._context()
            )
        elif at.scheme == "http":
            c = http.client.HTTPConnection(where, port, timeout=self.timeout)
        else:
            raise ValueError(f"{url}: want https://HOST:PORT")
        try:
            c.request("GET", at.path.rstrip("/") + "/v1/room", headers=self._headers())
            answer = c.getresponse()
            body = bytearray()
            while chunk := answer.read1(1 << 16):
                body += chunk
                if len(body) > MOST_BYTES or time.monotonic() > end:
                    raise ValueError("its answer is too long, or takes too long")
            if answer.status != 200:
                raise ValueError(f"HTTP status {answer.status}: {bytes(body[:200]).decode(errors='replace').strip()}")
            return fit.read(json.loads(body))
        except http.client.HTTPException as err:
            raise ValueError(f"no HTTP: {err!r}") from err
        finally:
            c.close()

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file or None)
        return context

    def _headers(self) -> dict[str, str]:
        if not self.token_file:
            return {}
        with open(self.token_file, encoding="ascii") as f:
            return {"Authorization": "Bearer " + f.read().strip()}


@dataclasses.dataclass
class _Host:
    room: Optional[fit.Room] = None
    answered: float = float("-inf")  # when room was told
    asked: float = float("-inf")
    silent: bool = False
    asking: Optional[concurrent.futures.Future[None]] = None


class Rooms:
    """The newest answer of each host. Safe for threads."""

    def __init__(
        self,
        ask: Callable[[str], fit.Room],
        *,
        fresh: float = 2.0,  # seconds for which an answer stands
        stale: float = 60.0,  # seconds for which a silent host's last answer still counts
        within: float = 1.0,  # seconds that all hosts together have
        at_once: int = 32,
        log: Any = logging.getLogger(__name__),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._fresh, self._stale, self._within = ask, fresh, stale, within
        self._log, self._clock = log, clock
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}
        self._pool = concurrent.futures.ThreadPoolExecutor(at_once, thread_name_prefix="homenode")

    def of(self, urls: Mapping[str, str]) -> dict[str, Optional[fit.Room]]:
        """What is left on each host, by name; None of one that is silent. urls is by name, too."""
        now = self._clock()
        waiting = []
        with self._lock:
            for name, url in urls.items():
                host = self._hosts.setdefault(name, _Host())
                rest = max(self._fresh, REST) if host.silent else self._fresh
                if host.asking is None and now - max(host.answered, host.asked) >= rest:
                    host.asked = now
                    host.asking = self._pool.submit(self._one, name, url)
                if host.asking is not None:
                    waiting.append(host.asking)
        concurrent.futures.wait(waiting, timeout=self._within)
        now = self._clock()
        out: dict[str, Optional[fit.Room]] = {}
        with self._lock:
            for name in urls:
                host = self._hosts[name]
                if host.asking is not None and host.asking.running():
                    self._silence(name, host, f"no answer within {self._within:g} s")
                out[name] = host.room if now - host.answered <= self._stale else None
        return out

    def _one(self, name: str, url: str) -> None:
        try:
            room = self._ask(url)
        except Exception as err:  # whatever it is, scheduling goes on
            with self._lock:
                host = self._hosts[name]
                host.asking = None
                self._silence(name, host, str(err) or repr(err))
            return
        with self._lock:
            host = self._hosts[name]
            host.room, host.answered, host.asking = room, self._clock(), None
            if host.silent:
                self._log.info("homenode of host %s answers again", name)
            host.silent = False

    def _silence(self, name: str, host: _Host, why: str) -> None:
        if not host.silent:
            self._log.warning("homenode of host %s does not answer; the host is scheduled without it: %s", name, why)
        host.silent = True
