# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparing objects of AWX, and asking its API."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._awx.client import AwxError, Client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._awx.kinds import (
    ENCRYPTED,
    HIDDEN,
    coerce,
    hide,
    payload,
    same,
    same_survey,
    text,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._awx.objects import manage
from ansible_collections.rdmaops.gpu_fabric.tests.support.controller import Controller
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes.server import Server

Json = t.Dict[str, t.Any]

# field, live, wanted, same
SAME: list[tuple[str, t.Any, t.Any, bool]] = [
    ("forks", 5, 5, True),
    ("forks", 5, 6, False),
    ("limit", None, "", False),
    ("extra_vars", '{"a": 1}', {"a": 1}, True),
    ("extra_vars", '{"a": 1, "b": 2}', {"a": 1}, False),
    ("extra_vars", "---", {}, True),
    ("extra_vars", "", {}, True),
    ("extra_vars", "a: 1", {"a": 1}, False),
    ("extra_vars", "a: 1", "a: 1", True),
    ("password", ENCRYPTED, "anything", True),
    ("notification_configuration", {"url": "u", "password": ENCRYPTED, "more": 1}, {"url": "u", "password": "p"}, True),
    ("notification_configuration", {"url": "u"}, {"url": "v"}, False),
    ("notification_configuration", {"url": "u"}, {"url": "u", "token": "t"}, False),
]


@pytest.mark.parametrize(("field", "live", "wanted", "expected"), SAME)
def test_same(field: str, live: t.Any, wanted: t.Any, expected: bool) -> None:
    assert same(field, live, wanted) is expected
    # What is sent is what is then the same.
    assert same(field, payload(field, wanted), wanted)


def test_a_secret_is_written_when_that_is_asked_for() -> None:
    assert same("password", ENCRYPTED, "p", update_secrets=True) is False
    assert same("notification_configuration", {"password": ENCRYPTED}, {"password": "p"}, update_secrets=True) is False
    assert same("description", "x", "x", update_secrets=True) is True


def test_same_survey() -> None:
    question = {"variable": "a", "type": "text", "default": "x"}
    survey = {"name": "n", "description": "", "spec": [question]}
    assert same_survey({**survey, "spec": [{**question, "max": 1024}]}, survey)
    assert not same_survey({}, survey)
    assert not same_survey({**survey, "description": "d"}, survey)
    assert not same_survey({**survey, "spec": [{**question, "default": "y"}]}, survey)
    assert not same_survey({**survey, "spec": [question, question]}, survey)


def test_numbers_that_a_template_has_made_text() -> None:
    assert [coerce("forks", value) for value in ("20", 20, "many")] == [20, 20, "many"]
    assert coerce("scm_branch", "2024") == "2024"


def test_text_and_hide() -> None:
    fields = {"b": {"y": [1, 2], "x": {}}, "a": [{"k": "v"}], "c": None}
    assert text(fields) == 'a.0.k: "v"\nb.x: {}\nb.y: [1, 2]\nc: null\n'
    assert text({}) == ""
    assert hide({"a": ["s", "t"], "b": ENCRYPTED}, {"s"}) == {"a": [HIDDEN, "t"], "b": HIDDEN}


@pytest.fixture
def controller() -> t.Iterator[Controller]:
    with Controller(["site.yml"]) as server:
        server.add("organizations", name="Default")
        server.forget()
        yield server


def options(controller: Controller, **more: t.Any) -> Json:
    connection = {"controller_host": controller.url, "controller_oauthtoken": controller.token}
    limits = dict.fromkeys(("request_timeout", "project_timeout"), 10)
    return options_of("awx_objects", **{**connection, **limits, "objects": {}, **more})


def test_every_page_is_read(controller: Controller) -> None:
    for number in range(401):
        controller.add("credentials", name=f"credential-{number}")
    credentials = Client(options(controller)).every("credentials/", "Looking")
    assert [credential["name"] for credential in credentials] == [f"credential-{number}" for number in range(401)]
    assert len(controller.requests) == 3


# objects, what is said
WRONG: list[tuple[Json, str]] = [
    ({"inventories": [{"organization": "Default"}]}, "one of the inventories has no name"),
    ({"inventories": [{"name": "a"}]}, "inventory a has no organization"),
    ({"inventories": [{"name": "a", "organization": "Default"}] * 2}, "inventory a is listed twice"),
    (
        {"schedules": [{"name": "s", "unified_job_template": "x"}]},
        "schedule s refers to the job template or workflow x, and the controller has none",
    ),
]
NODES: list[tuple[list[Json], str]] = [
    ([{"approval": {"name": "a"}}, {"approval": {"name": "b"}}], "every node needs a unique identifier"),
    ([{"identifier": "a"}], "node a: set either unified_job_template or approval"),
    ([{"identifier": "a", "approval": {"timeout": 1}}], "node a: the approval has no name"),
    ([{"identifier": "a", "approval": {"name": "a"}, "always_nodes": ["b"]}], "node a leads to b, which is not a node"),
    (
        [{"identifier": "a", "unified_job_template": "x"}],
        "workflow w refers to the job template or workflow x, and the controller has none",
    ),
]
WRONG += [
    ({"workflow_job_templates": [{"name": "w", "organization": "Default", "workflow_nodes": nodes}]}, said)
    for nodes, said in NODES
]


@pytest.mark.parametrize(("objects", "said"), WRONG)
def test_what_cannot_be_is_told_before_anything_is_changed(controller: Controller, objects: Json, said: str) -> None:
    message = message_of(AwxError, manage, options(controller, objects=objects), False)
    assert message.startswith(f"Nothing was changed on {controller.url}: ")
    assert said in message
    assert controller.writes() == []


def test_a_secret_is_written_again_with_consent_only(controller: Controller) -> None:
    template = {
        "name": "chat",
        "organization": "Default",
        "notification_type": "slack",
        "notification_configuration": {"channels": ["#gpu"]},
    }
    given = {"objects": {"notification_templates": [template]}, "notification_secrets": {"chat": {"token": "t"}}}
    assert manage(options(controller, **given), False)["changed"] is True
    controller.forget()
    assert manage(options(controller, **given), False)["changed"] is False
    assert controller.writes() == []
    assert manage(options(controller, **given, update_secrets=True), False)["changed"] is True
    assert controller.writes() != []


def test_a_secret_of_no_template(controller: Controller) -> None:
    with pytest.raises(AwxError, match="notification_secrets has x, which is not a notification template in objects"):
        manage(options(controller, notification_secrets={"x": {"token": "t"}}), False)


def test_a_field_that_the_controller_drops(controller: Controller) -> None:
    """AWX answers 201 to what it does not know."""
    inventory = {"name": "a", "organization": "Default", "descripton": "wrong"}
    assert message_of(AwxError, manage, options(controller, objects={"inventories": [inventory]}), False).startswith(
        "Create inventory a: the controller accepted the request, but these fields differ from the requested values: "
        "descripton is None."
    )


def test_galaxy_credentials_are_kept_in_order(controller: Controller) -> None:
    for name in ("hub", "galaxy"):
        controller.add("credentials", name=name)
    for wanted in (["hub", "galaxy"], ["galaxy", "hub"], ["hub"]):
        given_ = options(controller, objects={"organizations": [{"name": "Default", "galaxy_credentials": wanted}]})
        assert [manage(given_, False)["changed"], manage(given_, False)["changed"]] == [True, False]
        assert controller.names("organizations", "Default", "galaxy_credentials") == wanted


def test_an_address_at_which_there_is_no_awx(controller: Controller, serve: t.Callable[..., Server]) -> None:
    page = b"<html>\n  Welcome</html>"
    address = serve((200, page), (502, page)).url
    client = Client(options(controller, controller_host=address))
    for message in (
        f"Looking: the answer of {address} is not JSON, so this is not AWX. Check controller_host",
        f"Looking: {address} answered 502: <html> Welcome</html>",
    ):
        assert message_of(AwxError, client.get, "ping/", "Looking") == message
