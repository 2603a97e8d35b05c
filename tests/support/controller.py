# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for AWX's controller, as far as objects are created and changed by its API.

    with Controller() as controller:
        controller.add("credentials", name="nodes")
        ...controller.url, controller.token...
        assert controller.writes() == []

It keeps what is posted, and answers and refuses as AWX 24.6.1 does: awx/api/{generics,filters,pagination,serializers}.py and
awx/api/views/. What its objects have is in controller_fields.py.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import typing as t
from urllib.parse import parse_qsl, urlencode, urlsplit

from ansible_collections.rdmaops.gpu_fabric.tests.support import http_server
from ansible_collections.rdmaops.gpu_fabric.tests.support.controller_checks import (
    Refused,
    check_rrule,
    check_survey,
    check_type,
    not_found,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.controller_fields import (
    EDGES,
    FIELDS,
    LISTS,
    NEEDED,
    NEEDS,
    PASSWORDS,
    REF,
    RELATED,
    UNIFIED,
    UNIQUE,
)

Json = t.Dict[str, t.Any]

VERSION = "24.6.1"
PAGE_SIZE = 25
ENCRYPTED = "$encrypted$"


class Request(t.NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: t.Any


class Controller:
    """The objects, and an HTTP server in front of them."""

    def __init__(self, playbooks: t.Sequence[str] = ()) -> None:
        self.token = "a-token-of-an-administrator"
        self.user, self.password = "admin", "a-password"
        # Users who may only look.
        self.auditor = "a-token-of-an-auditor"
        self.playbooks = list(playbooks)
        # How an update of a project ends, and how many looks at it it takes.
        self.update_ends = "successful"
        self.update_looks = 2
        self.requests: list[tuple[str, str, t.Any]] = []
        self.objects: dict[str, dict[int, Json]] = {kind: {} for kind in FIELDS}
        self.lists: dict[tuple[int, str], list[int]] = {}
        self.surveys: dict[int, Json] = {}
        self.secrets: dict[int, Json] = {}
        self._looks: dict[int, int] = {}
        self._last = 0
        self._lock = threading.RLock()
        self._server: http_server.Server | None = None

    # --- for tests ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Controller:
        self._server = _Server(self).__enter__()
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.__exit__()

    @property
    def url(self) -> str:
        assert self._server is not None
        return self._server.url

    def add(self, kind: str, **fields: t.Any) -> int:
        """Make an object by hand, with names for other objects' numbers, and return its number."""
        for field, kinds in RELATED.items():
            if isinstance(fields.get(field), str):
                fields[field] = next(
                    self.named(other, fields[field])["id"] for other in kinds if self._by_name(other, fields[field])
                )
        return int(self.create(kind, fields)["id"])

    def named(self, kind: str, name: str) -> Json:
        """Return the object of a name; there must be one."""
        (item,) = self._by_name(kind, name)
        return item

    def _by_name(self, kind: str, name: str) -> list[Json]:
        return [self.shown(kind, number) for number, item in self.objects[kind].items() if item.get("name") == name]

    def names(self, kind: str, name: str, field: str) -> list[str]:
        """Return the names of what is in one of an object's lists."""
        numbers = self.lists.get((self.named(kind, name)["id"], field), [])
        return [self.objects[LISTS[field]][number]["name"] for number in numbers]

    def writes(self) -> list[str]:
        """Return method and path of every request that was more than a look."""
        return [f"{method} {path}" for method, path, _body in self.requests if method != "GET"]

    def forget(self) -> None:
        """Forget the requests so far."""
        self.requests.clear()

    # --- as AWX does --------------------------------------------------------------------------------------------

    def create(self, kind: str, values: Json) -> Json:
        item = {key: default for key, default in FIELDS[kind].items() if default is not None}
        item = {key: None if default in (REF, NEEDED) else default for key, default in item.items()}
        missing = [
            key
            for key, default in FIELDS[kind].items()
            if (default is None or default == NEEDED) and values.get(key) in (None, "")
        ]
        if missing:
            raise Refused(400, {key: ["This field is required."] for key in missing})
        item.update({key: value for key, value in values.items() if key in FIELDS[kind]})
        self._last += 1
        number = self._last
        self._accept(kind, number, item)
        self.objects[kind][number] = item
        if kind == "projects" and item["scm_type"]:
            self._looks[number] = 0
        return self.shown(kind, number)

    def change(self, kind: str, number: int, values: Json) -> Json:
        before = self.objects[kind][number]
        item = {**before, **{key: value for key, value in values.items() if key in FIELDS[kind]}}
        self._accept(kind, number, item)
        self.objects[kind][number] = item
        if kind == "projects" and any(
            item[key] != before[key] for key in ("scm_url", "scm_branch", "scm_type", "credential")
        ):
            self._looks[number] = 0
        return self.shown(kind, number)

    def _accept(self, kind: str, number: int, item: Json) -> None:
        for field, value in item.items():
            self._accept_field(kind, field, value)
        if kind == "job_templates":
            self._accept_job_template(item)
        elif kind == "notification_templates":
            self._accept_notification(number, item)
        elif kind == "schedules":
            check_rrule(item["rrule"])
        elif kind == "inventory_sources" and item["source"] == "scm" and item["source_project"] is None:
            raise Refused(400, {"source_project": ["Project required for scm type sources."]})
        self._accept_name(kind, number, item)

    def _accept_field(self, kind: str, field: str, value: t.Any) -> None:
        if field in RELATED and value is not None and not any(value in self.objects[other] for other in RELATED[field]):
            raise Refused(400, {field: [f'Invalid pk "{value}" - object does not exist.']})
        check_type(field, FIELDS[kind].get(field), value)

    def _accept_job_template(self, template: Json) -> None:
        project = self.objects["projects"][template["project"]]
        # It is not a field of its own: JobTemplate.save takes it from the project.
        template["organization"] = project["organization"]
        if template["playbook"] not in self._fetched(template["project"]):
            raise Refused(400, {"playbook": ["Playbook not found for project."]})
        if template["inventory"] is None and not template["ask_inventory_on_launch"]:
            raise Refused(400, {"inventory": ["Job Templates must either have a default inventory or ask for one."]})

    def _accept_name(self, kind: str, number: int, item: Json) -> None:
        if kind not in UNIQUE:
            return
        fields = (*UNIQUE[kind], "name")
        for other, existing in self.objects[kind].items():
            if other != number and all(existing.get(field) == item.get(field) for field in fields):
                text = f"{kind} with this {' and '.join(fields)} already exists."
                raise Refused(400, {"__all__": [text]})

    def _accept_notification(self, number: int, item: Json) -> None:
        kind, configuration = item["notification_type"], dict(item["notification_configuration"])
        if kind not in NEEDS:
            raise Refused(400, {"notification_type": [f'"{kind}" is not a valid choice.']})
        missing = [key for key in NEEDS[kind] if key not in configuration]
        if missing:
            raise Refused(
                400,
                {"notification_configuration": [f"Missing required fields for Notification Configuration: {missing}."]},
            )
        if kind == "webhook":
            configuration = {
                "http_method": "POST",
                "disable_ssl_verification": False,
                "username": "",
                "password": "",
                **configuration,
            }
        kept = self.secrets.setdefault(number, {})
        for key in PASSWORDS[kind]:
            if configuration.get(key) and configuration[key] != ENCRYPTED:
                kept[key] = configuration[key]
            if configuration.get(key):
                configuration[key] = ENCRYPTED
        item["notification_configuration"] = configuration

    def _fetched(self, project: int) -> list[str]:
        return (
            self.playbooks
            if self._looks.get(project, 0) >= self.update_looks and self.update_ends == "successful"
            else []
        )

    def shown(self, kind: str, number: int) -> Json:
        item = self.objects[kind][number]
        url = f"/api/v2/{kind}/{number}/"
        summary: Json = {}
        for field, kinds in RELATED.items():
            for other in kinds:
                if item.get(field) in self.objects[other]:
                    related_item = self.objects[other][item[field]]
                    summary[field] = {
                        "id": item[field],
                        "name": related_item["name"],
                        "description": related_item["description"],
                    }
                    if field == "unified_job_template":
                        types = {"job_templates": "job", "workflow_approval_templates": "workflow_approval"}
                        summary[field]["unified_job_type"] = types.get(other, "workflow_job")
        extra: Json = {}
        if kind == "projects":
            looks = self._looks.get(number, 0)
            extra["status"] = self.update_ends if looks >= self.update_looks else "pending"
        if kind == "workflow_job_template_nodes":
            extra |= {edge: list(self.lists.get((number, edge), [])) for edge in EDGES}
        related = {"survey_spec": f"{url}survey_spec/"} if kind in ("job_templates", "workflow_job_templates") else {}
        for other in RELATED["unified_job_template"]:
            if item.get("unified_job_template") in self.objects[other]:
                related["unified_job_template"] = f"/api/v2/{other}/{item['unified_job_template']}/"
        common = {"id": number, "type": kind.rstrip("s"), "url": url, "related": related, "summary_fields": summary}
        return {**common, **item, **extra}

    def answer(self, request: Request) -> tuple[int, t.Any]:
        path = request.path
        words = [word for word in path[len("/api/v2/") :].split("/") if word]
        if not path.startswith("/api/v2/") or not path.endswith("/") or not words:
            raise not_found()
        if words == ["ping"]:
            return 200, {"version": VERSION}
        if words == ["unified_job_templates"] and request.method == "GET":
            return 200, self._unified(request)
        kind = words[0]
        if kind not in FIELDS:
            raise not_found()
        if len(words) == 1:
            return self._collection(request, kind)
        if not words[1].isdigit() or int(words[1]) not in self.objects[kind]:
            raise not_found()
        number = int(words[1])
        if len(words) == 2:
            return self._detail(request, kind, number)
        return self._below(request, kind, number, words[2])

    def _unified(self, request: Request) -> Json:
        filters = {key: value for key, value in request.query.items() if key in ("name", "organization", "type")}
        items = [self.shown(kind, number) for kind in UNIFIED for number in self.objects[kind]]
        return _page(
            request, [item for item in items if all(str(item.get(key)) == value for key, value in filters.items())]
        )

    def _collection(self, request: Request, kind: str) -> tuple[int, t.Any]:
        if request.method == "GET":
            return 200, _page(request, [self.shown(kind, number) for number in self._filtered(kind, request.query)])
        if request.method == "POST" and kind != "workflow_approval_templates":
            return 201, self.create(kind, request.body)
        raise Refused(405, {"detail": f'Method "{request.method}" not allowed.'})

    def _detail(self, request: Request, kind: str, number: int) -> tuple[int, t.Any]:
        if request.method == "GET":
            if kind == "projects" and number in self._looks:
                self._looks[number] += 1
            return 200, self.shown(kind, number)
        if request.method in ("PATCH", "PUT"):
            return 200, self.change(kind, number, request.body)
        del self.objects[kind][number]
        for members in self.lists.values():
            members[:] = [member for member in members if member != number]
        return 204, None

    def _below(self, request: Request, kind: str, number: int, subresource: str) -> tuple[int, t.Any]:
        if subresource == "playbooks" and kind == "projects":
            return 200, self._fetched(number)
        if subresource == "survey_spec" and kind in ("job_templates", "workflow_job_templates"):
            return self._survey(request, number)
        if subresource == "workflow_nodes" and kind == "workflow_job_templates":
            return self._workflow_nodes(request, number)
        if (
            subresource == "create_approval_template"
            and kind == "workflow_job_template_nodes"
            and request.method == "POST"
        ):
            template = self.create("workflow_approval_templates", request.body)
            self.objects[kind][number]["unified_job_template"] = template["id"]
            return 201, template
        if subresource not in LISTS:
            raise not_found()
        return self._list(request, number, subresource)

    def _survey(self, request: Request, template: int) -> tuple[int, t.Any]:
        if request.method == "GET":
            return 200, self.surveys.get(template, {})
        check_survey(request.body)
        self.surveys[template] = request.body
        return 200, None

    def _workflow_nodes(self, request: Request, workflow: int) -> tuple[int, t.Any]:
        kind = "workflow_job_template_nodes"
        if request.method == "POST":
            return 201, self.create(kind, {**request.body, "workflow_job_template": workflow})
        nodes = self.objects[kind]
        numbers = [number for number, node in nodes.items() if node["workflow_job_template"] == workflow]
        return 200, _page(request, [self.shown(kind, number) for number in numbers])

    def _list(self, request: Request, owner: int, relation: str) -> tuple[int, t.Any]:
        members = self.lists.setdefault((owner, relation), [])
        if request.method == "GET":
            return 200, _page(request, [self.shown(LISTS[relation], number) for number in members])
        other = request.body.get("id")
        if other not in self.objects[LISTS[relation]]:
            raise Refused(400, {"id": ["Object does not exist."]})
        if request.body.get("disassociate"):
            members[:] = [number for number in members if number != other]
        elif other not in members:
            self._accept_in_list(relation, members, other)
            members.append(other)
        return 204, None

    def _accept_in_list(self, relation: str, members: list[int], other: int) -> None:
        credentials = self.objects["credentials"]
        if relation == "credentials" and credentials[other]["credential_type"] is not None:
            kinds = [credentials[member]["credential_type"] for member in members]
            if credentials[other]["credential_type"] in kinds:
                name = self.objects["credential_types"][credentials[other]["credential_type"]]["name"]
                raise Refused(400, {"error": f"Cannot assign multiple {name} credentials."})

    def _filtered(self, kind: str, query: dict[str, str]) -> list[int]:
        filters = {key: value for key, value in query.items() if key not in ("page", "page_size", "order_by")}
        fields = {*FIELDS[kind], "id", "organization"} if kind in UNIFIED else {*FIELDS[kind], "id"}
        for key in filters:
            if key not in fields:
                raise Refused(400, {"detail": f"{kind} has no field named '{key}'"})
        matches = []
        for number, item in self.objects[kind].items():
            values = {**item, "id": number}
            if all(str("" if values.get(key) is None else values[key]) == value for key, value in filters.items()):
                matches.append(number)
        return matches


def _page(request: Request, items: list[Json]) -> Json:
    query = request.query
    size, page = int(query.get("page_size", PAGE_SIZE)), int(query.get("page", 1))
    begin, end = (page - 1) * size, page * size
    if begin and begin >= len(items):
        raise Refused(404, {"detail": "Invalid page."})
    following = f"{request.path}?{urlencode({**query, 'page': page + 1})}" if end < len(items) else None
    previous = f"{request.path}?{urlencode({**query, 'page': page - 1})}" if page > 1 else None
    return {"count": len(items), "next": following, "previous": previous, "results": items[begin:end]}


class _Server(http_server.Server):
    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.controller = controller

    def answer(self, request: http_server.Request) -> http_server.Answer:
        parts = urlsplit(request.path)
        body = json.loads(request.body) if request.body else None
        with self.controller._lock:
            self.controller.requests.append((request.method, parts.path, body))
            try:
                self._authorize(request.method, request.headers.get("Authorization") or "")
                query = dict(parse_qsl(parts.query))
                status, answer = self.controller.answer(Request(request.method, parts.path, query, body))
            except Refused as exc:
                status, answer = exc.status, exc.body
        headers = {"Content-Type": "application/json", "X-API-Product-Name": "AWX", "X-API-Product-Version": VERSION}
        return http_server.Answer(status, b"" if answer is None else json.dumps(answer).encode(), headers)

    def _authorize(self, method: str, credentials: str) -> None:
        bearer = re.fullmatch(r"Bearer (.+)", credentials)
        if bearer and bearer[1] == self.controller.auditor and method != "GET":
            raise Refused(403, {"detail": "You do not have permission to perform this action."})
        if bearer and bearer[1] in (self.controller.token, self.controller.auditor):
            return
        if credentials == _basic(self.controller.user, self.controller.password):
            return
        text = "Authentication credentials were not provided. To establish a login session, visit /api/login/."
        raise Refused(401, {"detail": text})


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


__all__ = ["Controller"]
