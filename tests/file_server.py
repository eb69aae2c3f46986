"""A web server on 127.0.0.1 that serves bytes, as well or as badly as a test wants."""

import re
import threading
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep

_PATIENCE_SECONDS = 30.0


class FileServer(ThreadingHTTPServer):
    """Serves ``files``, a mapping from path ("binary/a9a") to bytes.

    ``requests`` records (path, Range, If-Range) of every request. What can go wrong:

    cuts
        For one response after the other, after how many bytes to close the connection.
    pause_after
        After how many bytes to wait until ``go_on`` is set.
    ranges, tells_change, tells_length
        Whether the server knows Range, Last-Modified and Content-Length.
    """

    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = dict(files)
        self.requests = []
        self.cuts = []
        self.pause_after = None
        self.go_on = threading.Event()
        self.ranges = self.tells_change = self.tells_length = True
        self.changed = formatdate(1_000_000_000, usegmt=True)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/data"


@contextmanager
def serving(files):
    """A running server that is gone at the end of the block."""
    server = FileServer(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


def until(happened):
    """Wait for something that must happen; fail if it does not."""
    deadline = monotonic() + _PATIENCE_SECONDS
    while not happened():
        assert monotonic() < deadline
        sleep(0.005)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        path = self.path.removeprefix("/data/")
        wanted, unless_changed = self.headers["Range"], self.headers["If-Range"]
        server.requests.append((path, wanted, unless_changed))
        if path not in server.files:
            self.send_error(404)
            return
        body, start = server.files[path], 0
        if wanted and server.ranges and unless_changed in (None, server.changed):
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
        if start and start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if server.tells_length:
            self.send_header("Content-Length", str(len(body) - start))
        if server.tells_change:
            self.send_header("Last-Modified", server.changed)
        self.end_headers()
        self._send(body[start:])

    def _send(self, body):
        server = self.server
        if server.cuts:
            body = body[: server.cuts.pop(0)]
        if server.pause_after is not None:
            self.wfile.write(body[: server.pause_after])
            self.wfile.flush()
            server.go_on.wait(_PATIENCE_SECONDS)
            body = body[server.pause_after :]
        try:
            self.wfile.write(body)
        except ConnectionError:  # the client was interrupted
            self.close_connection = True

    def log_message(self, *arguments):
        """Say nothing."""
