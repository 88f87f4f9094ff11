"""`tabgpt lab`: serves the built site so that a tab gets threads, and nobody else gets in.

Cross-origin isolation (COOP, COEP) gives the page SharedArrayBuffer; the content
security policy keeps every request at home; the Host check stops DNS rebinding.
Starlette resolves paths, refuses those that leave the folder, and serves ranges.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import socket
import webbrowser
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import TabgptError

DEFAULT_PORT = 8127
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_ANY_ADDRESS = {"0.0.0.0", "::"}
_IMMUTABLE = "/_astro/"
"""Astro's built files: their names carry a hash of their content."""
_MIME = {
    # set here, because the system's table may lack them or say otherwise
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".wgsl": "text/plain",
    ".txt": "text/plain",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".whl": "application/zip",
}
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class _InlineCode(HTMLParser):
    """Collects the inline scripts and styles of a page, as a browser hashes them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.code: dict[str, list[str]] = {"script": [], "style": []}
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.code and "src" not in dict(attrs):
            self._inside = tag
            self.code[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.code[self._inside][-1] += data


def content_security_policy(html: str = "") -> str:
    """DESIGN's policy, with the hashes of this page's own inline scripts and styles."""
    page = _InlineCode()
    page.feed(html.replace("\r\n", "\n"))

    def hashes(tag: str) -> str:
        digests = {hashlib.sha256(code.encode()).digest() for code in page.code[tag] if code}
        return "".join(f" 'sha256-{base64.b64encode(d).decode()}'" for d in sorted(digests))

    style = f"style-src 'self'{hashes('style')}; " if page.code["style"] else ""
    return (
        f"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{hashes('script')}; {style}"
        f"worker-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; "
        f"frame-ancestors 'none'; form-action 'self'"
    )


@lru_cache(maxsize=256)
def _policy_of(path: Path, _mtime_ns: int) -> str:
    return content_security_policy(path.read_text(encoding="utf-8", errors="replace"))


class Guard:
    """Refuses foreign hosts; puts the security headers on every answer, errors included."""

    def __init__(self, app: ASGIApp, site: Path, hosts: set[str] | None) -> None:
        self._app = app
        self._site = site
        self._hosts = hosts
        """Names by which this server may be called; None is any."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(scope["path"], message["status"], MutableHeaders(scope=message))
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if self._hosts is not None and _without_port(host) not in self._hosts:
            reply = PlainTextResponse(
                f"The Host {host!r} is not this server: open it by one of "
                f"{', '.join(sorted(self._hosts))}.\n",
                status_code=400,
            )
            await reply(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _add_headers(self, path: str, status: int, headers: MutableHeaders) -> None:
        for name, value in _HEADERS.items():
            headers[name] = value
        headers["Content-Security-Policy"] = self._policy(path, status)
        forever = path.startswith(_IMMUTABLE) and status in (200, 206, 304)
        headers["Cache-Control"] = "public, max-age=31536000, immutable" if forever else "no-cache"

    def _policy(self, path: str, status: int) -> str:
        """A page's policy allows its own inline scripts; every other file's (a worker's) none.

        By path, not by Content-Type: a 304 has none, yet replaces the cached policy.
        """
        name = "404.html" if status == 404 else path.strip("/")
        if not name.endswith(".html"):
            name = f"{name}/index.html".lstrip("/")
        page = self._site / name
        try:
            if page.resolve().is_relative_to(self._site):
                return _policy_of(page, page.stat().st_mtime_ns)
        except (OSError, ValueError):
            pass  # no page: a file, a name too long, a NUL
        return content_security_policy()


def _without_port(host: str) -> str:
    """ "127.0.0.1:80" -> "127.0.0.1", "[::1]:80" -> "::1"."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def make_app(site: Path, host: str = "127.0.0.1") -> ASGIApp:
    """The ASGI application that serves the folder."""
    for suffix, kind in _MIME.items():
        mimetypes.add_type(kind, suffix)
    site = site.resolve()
    files = StaticFiles(directory=site, html=True)
    # an address that stands for all of the machine's own has names that we do not know
    hosts = None if host in _ANY_ADDRESS else _LOOPBACK | {host.lower()}
    return Guard(Starlette(routes=[Mount("/", files)]), site, hosts)


def find_site(site: Path | None = None) -> Path:
    """The built site: as given, the package's own, or that of the checkout."""
    here = Path(__file__).resolve()
    candidates = [site] if site else [here.parent / "site", here.parents[2] / "browser" / "dist"]
    for folder in candidates:
        if (folder / "index.html").is_file():
            return folder
    raise TabgptError(
        f"there is no built site in {' or '.join(map(str, candidates))}: in a checkout, `make lab` "
        f"builds it and serves it"
    )


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket: the port asked for; else the default one, or a free one."""
    if not host:
        raise TabgptError("the host is empty; give an address such as 127.0.0.1, or leave it out")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (DEFAULT_PORT, 0) if port is None else (port,):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
        except OSError as error:
            listener.close()
            if port is not None or candidate == 0:
                raise TabgptError(
                    f"cannot listen on {host} port {candidate}: {error.strerror or error}; "
                    f"choose another --port, or leave it out"
                ) from None
            continue
        listener.listen(128)
        return listener
    raise AssertionError("unreachable: port 0 is bound or an error")


def serve(host: str, port: int | None, open_browser: bool, site: Path | None) -> None:
    """Serves until Ctrl-C; prints the address first."""
    app = make_app(find_site(site), host)
    listener = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/"
    print(f"The lab is at {address} (Ctrl-C ends it)", flush=True)
    if host not in _LOOPBACK:
        print(f"Note: {host} is not loopback, so other machines can open it too", flush=True)
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        app, log_level="warning", server_header=False, lifespan="off", timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[listener])
