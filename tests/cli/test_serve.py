"""`tabgpt lab` on a real socket: what it serves, how, and to whom it says no."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import tiny_run
from tabgpt import serve

SCRIPT = "console.log('inline <b>');\nif (1 < 2 && true) {}"
PAGE = f"""<!doctype html><html><head><meta charset="utf-8"><script>{SCRIPT}</script>
<script type="module" src="./_astro/page.abc.js"></script></head><body>lab</body></html>"""
FILES = {
    "index.html": PAGE,
    "check.html": "<!doctype html><script src='./_astro/page.abc.js'></script>check",
    "404.html": "<!doctype html>not here",
    "_astro/page.abc.js": "export {};",
    "wasm/simd/tabgpt.mjs": "export default 1;",
    "wasm/simd/tabgpt.wasm": "\0asm",
    "corpus/shakespeare.txt": "To be, or not to be",
    "presets.json": "{}",
    "style.css": "a {}",
    "python/tabgpt-1-py3-none-any.whl": "PK",
}


class Lab(NamedTuple):
    port: int
    site: Path


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("serve")
    site = root / "site"
    for name, content in FILES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    (root / "secret.txt").write_text("secret")
    (root / "site-secret.txt").write_text("secret")
    (site / "link.txt").symlink_to(root / "secret.txt")
    process, port = start(site)
    yield Lab(port, site)
    process.kill()
    process.communicate()


def start(
    site: Path, *options: object, environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[str], int]:
    """The process and its port, once it has printed its address."""
    process = subprocess.Popen(
        tiny_run.command("lab", "--site", site, *(options or ("--port", 0))),
        env=environment or tiny_run.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert address, line + process.stdout.read()
    return process, int(address[1])


def ask(lab: Lab, path: str, host: str | None = None, method: str = "GET", **headers: str) -> Reply:
    """The path goes out exactly as it is written: no client that tidies it."""
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", host or f"127.0.0.1:{lab.port}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    reply = connection.getresponse()
    result = Reply(reply.status, reply.headers, reply.read())
    connection.close()
    return result


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/check.html", "text/html"),
        ("/_astro/page.abc.js", "text/javascript"),
        ("/wasm/simd/tabgpt.mjs", "text/javascript"),
        ("/wasm/simd/tabgpt.wasm", "application/wasm"),
        ("/corpus/shakespeare.txt", "text/plain"),
        ("/presets.json", "application/json"),
        ("/style.css", "text/css"),
        ("/python/tabgpt-1-py3-none-any.whl", "application/zip"),
    ],
)
def test_content_and_mime_types(lab: Lab, path: str, kind: str) -> None:
    reply = ask(lab, path)
    assert reply.status == 200
    assert reply.headers["Content-Type"].split(";")[0] == kind
    assert reply.body.decode() == FILES[path.lstrip("/") or "index.html"]


@pytest.mark.parametrize("path", ["/", "/_astro/page.abc.js", "/nowhere", "/wasm/simd/tabgpt.wasm"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_every_answer_has_the_security_headers(lab: Lab, path: str, method: str) -> None:
    headers = ask(lab, path, method=method).headers
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = headers["Content-Security-Policy"]
    for part in (
        "default-src 'self';",
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self';",
        "connect-src 'self';",
        "object-src 'none';",
        "base-uri 'none';",
    ):
        assert part in policy
    assert "unsafe-inline" not in policy and "'unsafe-eval'" not in policy
    assert "Server" not in headers and "Access-Control-Allow-Origin" not in headers


def test_the_policy_allows_this_pages_inline_script_alone(lab: Lab) -> None:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    for path in ("/", "/index.html", "/?x=1"):
        assert f"'sha256-{digest}'" in ask(lab, path).headers["Content-Security-Policy"]
    for path in ("/check.html", "/_astro/page.abc.js", "/nowhere"):
        assert "sha256-" not in ask(lab, path).headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/../site-secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/%252e%252e%252fsecret.txt",
        "/corpus/../../secret.txt",
        "/corpus/%2e%2e/%2e%2e/secret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/....//secret.txt",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/%2f%2fetc%2fpasswd",
        "/c0%ae%c0%ae/secret.txt",
        "/secret.txt%00.html",
        "/%00",
        "/link.txt",
        "/./.././secret.txt",
        "/" + "a" * 5000,
    ],
)
def test_nothing_outside_the_site_is_served(lab: Lab, path: str) -> None:
    reply = ask(lab, path)
    assert reply.status in (400, 404)
    assert b"secret" not in reply.body and b"root:" not in reply.body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:{port}", "[::1]:{port}"])
def test_loopbacks_own_names_are_answered(lab: Lab, host: str) -> None:
    assert ask(lab, "/", host.format(port=lab.port)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example:{port}",
        "evil.example@127.0.0.1",
        "[::2]",
        "0.0.0.0",
        "",
    ],
)
def test_other_hosts_are_refused(lab: Lab, host: str) -> None:
    """DNS rebinding: a foreign name that resolves to this machine."""
    host = host.format(port=lab.port)
    reply = ask(lab, "/", host or " ")
    assert reply.status == 400 and b"lab</body>" not in reply.body
    assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_only_gives(lab: Lab, method: str) -> None:
    assert ask(lab, "/index.html", method=method).status == 405


def test_caching_and_ranges(lab: Lab) -> None:
    page, asset = ask(lab, "/"), ask(lab, "/_astro/page.abc.js")
    assert page.headers["Cache-Control"] == "no-cache"
    assert "immutable" in asset.headers["Cache-Control"]
    assert ask(lab, "/_astro/nowhere.js").headers["Cache-Control"] == "no-cache"
    again = ask(lab, "/", **{"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    # a browser takes the headers of a 304 over into its cached page
    policy = "Content-Security-Policy"
    assert again.headers[policy] == page.headers[policy] and "sha256-" in page.headers[policy]


@pytest.mark.parametrize(
    ("asked", "status", "body", "content_range"),
    [
        ("bytes=3-4", 206, b"be", "bytes 3-4/19"),
        ("bytes=16-", 206, b" be", "bytes 16-18/19"),
        ("bytes=-2", 206, b"be", "bytes 17-18/19"),
        ("bytes=16-999", 206, b" be", "bytes 16-18/19"),
        ("bytes=19-", 416, None, "bytes */19"),
    ],
)
def test_ranges(lab: Lab, asked: str, status: int, body: bytes | None, content_range: str) -> None:
    reply = ask(lab, "/corpus/shakespeare.txt", Range=asked)
    assert reply.status == status
    assert body is None or reply.body == body
    assert reply.headers["Content-Range"] == content_range


def test_a_range_of_what_has_changed_is_the_whole(lab: Lab) -> None:
    headers = {"Range": "bytes=3-4", "If-Range": '"another"'}
    assert ask(lab, "/corpus/shakespeare.txt", **headers).status == 200
    assert ask(lab, "/corpus/shakespeare.txt").headers["Accept-Ranges"] == "bytes"


def test_a_changed_page_gets_a_new_policy(lab: Lab) -> None:
    page = lab.site / "changing.html"
    page.write_text("<script>1</script>")
    first = ask(lab, "/changing.html").headers["Content-Security-Policy"]
    page.write_text("<script>23</script>")
    assert ask(lab, "/changing.html").headers["Content-Security-Policy"] != first


def test_an_empty_host_is_not_every_address() -> None:
    with pytest.raises(serve.TabgptError, match="the host is empty"):
        serve.listen("", None)


def test_it_listens_on_loopback_alone_and_finds_a_free_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(serve.TabgptError, match=f"cannot listen on 127.0.0.1 port {port}"):
            serve.listen("127.0.0.1", port)
    first, second = (serve.listen("127.0.0.1", None) for _ in range(2))
    with first, second:
        assert first.getsockname()[0] == second.getsockname()[0] == "127.0.0.1"
        assert first.getsockname()[1] != second.getsockname()[1]


def test_without_a_port_it_takes_a_free_one_where_the_usual_one_is_taken(lab: Lab) -> None:
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # another program has it already
            taken.bind(("127.0.0.1", serve.DEFAULT_PORT))
            taken.listen()
        process, port = start(lab.site, "--host", "127.0.0.1")
        assert port != serve.DEFAULT_PORT
        assert ask(Lab(port, lab.site), "/").status == 200
        process.kill()
        process.communicate()


def test_open_opens_a_browser_at_its_address(lab: Lab, tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    environment = tiny_run.environment(BROWSER=str(browser))
    process, port = start(lab.site, "--port", 0, "--open", environment=environment)
    for _ in range(200):
        if opened.exists():
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert opened.read_text().strip() == f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_quits_cleanly_although_a_browser_is_connected(lab: Lab, end: signal.Signals) -> None:
    process, port = start(lab.site)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    connection.getresponse().read()  # and the connection stays open
    process.send_signal(end)
    output, _ = process.communicate(timeout=20)
    connection.close()
    assert output == "" and process.returncode in (0, 128 + end, -end)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
