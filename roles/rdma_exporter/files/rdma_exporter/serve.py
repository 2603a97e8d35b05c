# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that answers HTTP. It needs no privileges, and reads only its web configuration."""

from __future__ import annotations

import typing as t

from . import command_line, handover
from .command_line import log
from .server import ListenError, Server
from .web_config import WebConfigError, WebConfigFile

DEFAULT_ADDRESS = ":9879"
# Seconds of a request besides the look: to read it, to compare a password, and to write the answer.
BESIDE_THE_LOOK = 2.0


def main(argv: t.Sequence[str] | None = None) -> int:
    parser = command_line.build_parser("serve", "Answer HTTP with what the process that looks hands over.")
    parser.add_argument("--web.listen-address", dest="address", default=DEFAULT_ADDRESS, metavar="HOST:PORT")
    parser.add_argument(
        "--web.config.file", dest="web_config", metavar="FILE", help="TLS and users, see exporter-toolkit"
    )
    options = parser.parse_args(argv)
    config = WebConfigFile(options.web_config)

    def look(seconds: float) -> bytes:
        return handover.ask(options.socket, seconds)

    try:
        config.current()
        server = Server(options.address, look, config, options.revision, options.total + BESIDE_THE_LOOK)
    except (ListenError, WebConfigError) as exc:
        log(str(exc))
        return 1
    command_line.end_on_sigterm()
    log("listening on %s, revision %s" % (options.address, options.revision))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


__all__ = ("DEFAULT_ADDRESS", "main")
