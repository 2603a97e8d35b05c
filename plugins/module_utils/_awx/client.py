# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A thin client of the API of AWX (version 2, as in AWX 24.6.1)."""

from __future__ import annotations

import base64
import json
import socket
import time
import typing as t
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit

from ansible.module_utils.basic import env_fallback
from ansible.module_utils.urls import ConnectionError as NoConnection
from ansible.module_utils.urls import Request, SSLValidationError, make_context

from .._errors import FabricError
from .._formats import from_json

Object = t.Dict[str, t.Any]

BASE = "/api/v2/"
# max_page_size in awx/api/pagination.py.
PAGE_SIZE = 200
_REDIRECTS = (301, 302, 303, 307, 308)


class AwxError(FabricError):
    """The controller cannot be reached, refuses, or sends an unexpected answer."""


def _option(*names: str, **more: t.Any) -> dict[str, t.Any]:
    # What AWX puts into the environment of a job that has a credential of the type of its own kind.
    return {"type": "str", "fallback": (env_fallback, list(names)), **more}


CONNECTION: dict[str, dict[str, t.Any]] = {
    "controller_host": _option("CONTROLLER_HOST", "TOWER_HOST", required=True),
    "controller_oauthtoken": _option("CONTROLLER_OAUTH_TOKEN", "TOWER_OAUTH_TOKEN", no_log=True),
    "controller_username": _option("CONTROLLER_USERNAME", "TOWER_USERNAME"),
    "controller_password": _option("CONTROLLER_PASSWORD", "TOWER_PASSWORD", no_log=True),
    "validate_certs": _option("CONTROLLER_VERIFY_SSL", "TOWER_VERIFY_SSL", type="bool", default=True),
    "ca_path": {"type": "path"},
    "request_timeout": {"type": "int", "default": 30},
}


def secrets(params: t.Mapping[str, t.Any]) -> set[str]:
    """Return the forms of secrets that are sent, or repeated in JSON, which Ansible does not censor."""
    values = [params[name] for name in ("controller_oauthtoken", "controller_password") if params[name]]
    forms = {json.dumps(text)[1:-1] for text in values}
    if params["controller_password"]:
        pair = "%s:%s" % (params["controller_username"], params["controller_password"])
        forms.add(base64.b64encode(pair.encode("utf-8")).decode("ascii"))
    return forms


class Client:
    """Sends requests to the controller; raises its answer if it refuses one."""

    def __init__(self, params: t.Mapping[str, t.Any]) -> None:
        host = str(params["controller_host"]).rstrip("/")
        self.host = host if "://" in host else "https://" + host
        if urlsplit(self.host).scheme not in ("http", "https") or not urlsplit(self.host).hostname:
            raise AwxError("controller_host is %r; it must be an address such as https://awx.example.org" % host)
        token = params["controller_oauthtoken"]
        if not token and not (params["controller_username"] and params["controller_password"]):
            raise AwxError(
                "Connecting to %s: set controller_oauthtoken, or controller_username and controller_password"
                % self.host
            )
        if token and not (token.isascii() and token.isprintable()):
            raise AwxError(
                "Connecting to %s: controller_oauthtoken contains characters that are not valid in a token, such as "
                "the newline at the end of a file; remove them" % self.host
            )
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        login: dict[str, t.Any] = {}
        if token:
            headers["Authorization"] = "Bearer %s" % token
        else:
            login = {
                "url_username": params["controller_username"],
                "url_password": params["controller_password"],
                "force_basic_auth": True,
            }
        self.timeout = int(params["request_timeout"])
        try:
            # Made once: it reads all of the system's certificates.
            context = make_context(cafile=params["ca_path"], validate_certs=params["validate_certs"])
        except OSError as exc:
            raise AwxError("Reading the CA certificates in ca_path %s: %s" % (params["ca_path"], exc)) from exc
        self._request = Request(
            headers=headers,
            timeout=self.timeout,
            context=context,
            # urllib would send the token and the password along, to whatever host.
            follow_redirects="none",
            # A ~/.netrc would take the place of the token.
            use_netrc=False,
            **login,
        )

    def call(self, method: str, path: str, doing: str, body: t.Any = None) -> t.Any:
        """Send one request; ``doing`` begins the text of an error."""
        url = self.host + (path if path.startswith("/") else BASE + path)
        data = json.dumps(body).encode() if body is not None else None
        try:
            with self._request.open(method, url, data=data) as answer:
                text = answer.read()
        except HTTPError as exc:
            raise AwxError("%s: %s" % (doing, self._refusal(exc))) from exc
        except (URLError, NoConnection, SSLValidationError, OSError) as exc:
            reason = getattr(exc, "reason", None) or exc
            if isinstance(reason, socket.timeout):
                raise AwxError(
                    "%s: %s did not answer within %d s (request_timeout)" % (doing, self.host, self.timeout)
                ) from exc
            raise AwxError(
                "%s: %s cannot be reached: %s. Check controller_host and, for https, ca_path"
                % (doing, self.host, reason)
            ) from exc
        if not text:
            return None
        try:
            return from_json(text)
        except ValueError as exc:
            raise AwxError(
                "%s: the answer of %s is not JSON, so this is not AWX. Check controller_host" % (doing, self.host)
            ) from exc

    def _refusal(self, error: HTTPError) -> str:
        if error.code in _REDIRECTS:
            place = urlsplit(error.geturl())
            return (
                "AWX at %s answered with a redirect to %s://%s%s. Credentials are sent only to controller_host: if AWX "
                "is at that address, set controller_host to it"
                % (self.host, place.scheme, place.netloc.rpartition("@")[2], place.path[:300])
            )
        try:
            text = error.read().decode("utf-8", "replace")
        except OSError:
            text = ""
        try:
            answer = from_json(text)
            if isinstance(answer, dict) and set(answer) == {"detail"}:
                answer = answer["detail"]
            reason = answer if isinstance(answer, str) else json.dumps(answer, sort_keys=True)
        except ValueError:
            # A proxy's page.
            reason = " ".join(text.split())[:300] or str(error.reason)
        help_ = {
            401: ". Set a valid token (controller_oauthtoken), or the correct user name and password",
            403: ". The user must be an administrator of the organization",
        }.get(error.code, "")
        return "%s answered %d: %s%s" % (self.host, error.code, reason.rstrip("."), help_)

    def get(self, path: str, doing: str) -> t.Any:
        return self.call("GET", path, doing)

    def every(self, path: str, doing: str, **query: t.Any) -> list[Object]:
        """Return what all pages of a list hold."""
        objects: list[Object] = []
        following: str | None = "%s?%s" % (path, urlencode({**query, "page_size": PAGE_SIZE}))
        while following:
            page = self.get(following, doing)
            objects += page["results"]
            following = page["next"]
        return objects

    def wait_for_project(self, path: str, doing: str, seconds: int) -> None:
        """Wait until the update that AWX starts for a new or changed project has ended well."""
        ends = time.monotonic() + seconds
        while True:
            project = self.get(path, doing)
            status = project["status"]
            if status == "successful":
                return
            if status in ("failed", "error", "canceled", "missing"):
                raise AwxError(
                    "%s: AWX could not fetch the project from %s: its update is %s. The output is in AWX under the "
                    "project's jobs; check the address, the branch and the credential"
                    % (doing, project.get("scm_url"), status)
                )
            if time.monotonic() > ends:
                raise AwxError(
                    "%s: AWX did not fetch the project within %d s (project_timeout), its update is %s"
                    % (doing, seconds, status)
                )
            time.sleep(1)


__all__ = ("CONNECTION", "AwxError", "Client", "Object", "secrets")
