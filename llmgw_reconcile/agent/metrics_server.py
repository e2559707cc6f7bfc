"""Serve the metrics of this node to Prometheus: one page, written anew for each scrape.

The standard library's server is enough for a page that one client asks for now and then, so that nobody has to install
anything to be scraped. Imported only where it was asked for: the server takes longer to import than a plan to make.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from threading import Thread

from llmgw_reconcile.errors import NodeError

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_SECONDS = 5  # a client that takes longer keeps others from their scrape


class MetricsServer:
    """Listens from its making on, and answers in a thread of its own until it is closed."""

    def __init__(self, host: str, port: int, write: Callable[[], str]) -> None:
        """`write` gives the page; where it fails the answer is 500. Port 0: any.

        Raises NodeError when it cannot listen there.
        """

        class Handler(_Handler):
            page = staticmethod(write)

        class Server(TCPServer):  # HTTPServer asks the resolver for the name of its address
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            allow_reuse_address = True

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            raise NodeError(f"cannot serve metrics on {host} port {port}: {error.strerror or error}") from None
        self.port = int(self._server.server_address[1])
        self._is_closed = False
        self._thread = Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more; a scrape under way is answered."""
        self._is_closed = True
        self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection
        self._thread.join(CLIENT_SECONDS)
        self._server.server_close()

    def _serve(self) -> None:
        while not self._is_closed:
            self._server.handle_request()


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS
    page: Callable[[], str]

    def do_GET(self) -> None:
        """The page, and nothing else."""
        if self.path.partition("?")[0] != PATH:
            self.send_error(404, explain=f"the metrics are at {PATH}")
            return
        try:
            body = self.page().encode()
        except Exception:  # noqa: BLE001 - whatever it was, the agent's loop will meet it too, and say so
            self.send_error(500, explain="the node could not be looked at; the agent's log says why")
            return
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """A scrape is no news."""
