"""Servers in threads of their own: of the standard library, and moto's AWS."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import Any, TypeVar

from docker.errors import DockerException  # type: ignore[import-untyped]
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.utilities.docker_utilities import DockerModel
from werkzeug.serving import WSGIRequestHandler, make_server

Server = TypeVar("Server", bound=HTTPServer)
Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def _no_client(_: DockerModel) -> None:
    raise DockerException("functions do not run in this account")


# For each message in a queue with a trigger moto runs the function in Docker. Where Docker runs, it
# first pulls an image, for minutes where there is no network.
DockerModel.docker_client = property(_no_client)  # type: ignore[method-assign, assignment]


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """Serve until the block ends, and close it then."""
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


@contextmanager
def served_aws(around: Callable[[App], App] = lambda app: app) -> Iterator[str]:
    """Serve an empty account until the block ends; yields what goes into ``AWS_ENDPOINT_URL``.

    *around* may see requests and change answers. All these servers of a process share one account.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    empty()
    app = around(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_KeepAlive)
    with served(http):
        yield f"http://127.0.0.1:{http.server_port}"


def empty() -> None:
    """Remove everything that the servers of this process hold."""
    moto_api_backend.reset()


class _KeepAlive(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
