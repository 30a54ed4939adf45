"""A Hub of models on loopback: the part of the Hub's HTTP API that sharing a model needs."""

import json
import re
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from hub import Answer, Hub, RefusedError

TOKEN = "hf_of_the_test"
REPOSITORY = r"(?P<name>[\w.-]+/[\w.-]+)"
MODEL, REVISION = f"/api/models/{REPOSITORY}", "(?P<revision>[^/]+)"
ROUTES = [
    ("POST", "/api/repos/create", Hub.create),
    ("POST", "/api/validate-yaml", Hub.validate),
    ("POST", f"{MODEL}/branch/{REVISION}", Hub.branch),
    ("GET", f"{MODEL}(/revision/{REVISION})?", Hub.info),
    ("GET", f"{MODEL}/tree/{REVISION}", Hub.tree),
    ("POST", f"{MODEL}/paths-info/{REVISION}", Hub.tree),
    ("POST", f"{MODEL}/preupload/{REVISION}", Hub.preupload),
    ("POST", f"/{REPOSITORY}.git/info/lfs/objects/batch", Hub.batch),
    ("PUT", "/large/(?P<oid>[0-9a-f]{64})", Hub.put_large),
    ("GET|HEAD", "/large/(?P<oid>[0-9a-f]{64})", Hub.get_large),
    ("POST", f"{MODEL}/commit/{REVISION}", Hub.commit),
    ("GET|HEAD", f"/{REPOSITORY}/resolve/{REVISION}/(?P<path>.+)", Hub.resolve),
]
# What may be done without a token, as far as the repository is public.
OPEN = {Hub.validate, Hub.info, Hub.tree, Hub.resolve, Hub.get_large, Hub.put_large}


class Request(BaseHTTPRequestHandler):
    """One request, answered by a hub."""

    protocol_version = "HTTP/1.1"

    def __init__(self, hub, *args):
        self.hub = hub
        super().__init__(*args)

    def json(self):
        return json.loads(self.body)

    def log_message(self, *args):
        """Write nothing to standard error."""

    def _answer(self):
        path, self.query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.hub.requests.append((self.command, path))
        if self.hub.breaks(self.command, path):
            raise RefusedError(400, "this server was told to refuse")
        for method, pattern, answer in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and re.fullmatch(method, self.command):
                if answer not in OPEN and not self.is_known:
                    raise RefusedError(401, "Invalid username or password.")
                parts = {name: part for name, part in found.groupdict().items() if part is not None}
                return answer(self.hub, self, **parts)
        raise RefusedError(404, f"no such address: {path}")

    def _handle(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self._answer()
        except RefusedError as error:
            code = {"X-Error-Code": error.code} if error.code else {}
            headers = code | {"X-Error-Message": str(error)}
            answer = Answer({"error": str(error)}, error.status, headers)
        content = answer.content
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = _handle


@contextmanager
def serve_hub():
    """Serve an empty hub until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Request, hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    hub.large_url = f"http://localhost:{server.server_port}/large"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
