# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role does only with consent: each task that asks for it, without the consent and with it."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import tasks_of, values

Json = t.Any
CONSENT = re.compile(
    r"\w+_(ok|consent|force|force_conflicts|evict_gpu_pods|delete_emptydir_data|retry_same_cause|containerd_config)"
)
# What a person reads of a task, and what has tasks of its own.
WORDS = ("name", "msg", "fail_msg", "vars", "block", "rescue", "always")


class Asks(t.NamedTuple):
    """A task that asks for a consent, in the situation that matters."""

    consent: str
    file: str
    task: str
    # A keyword of the task or an argument of its module, and what it is without the consent; with it, the other.
    key: str
    without: bool
    situation: dict[str, Json] = {}
    # -e name=value gives text.
    refusals: tuple[Json, ...] = (False, "false", "no")
    consents: tuple[Json, ...] = (True, "true", "yes")

    @property
    def role(self) -> str:
        return next(name for name in ROLES if self.consent.startswith(name + "_"))


ROLES = sorted(path.name for path in (COLLECTION / "roles").iterdir())
REAL = {"ansible_check_mode": False}
LIMITED = {"__gpu_node_limited_units": [{"key": "containerd.service"}]}
JOINED = {**REAL, "__kubernetes_step": {"action": "none"}}
REASON = {"node_maintenance_reboot_pending": "fail", **REAL}
BEFORE = {"reboot_cause": "mode", "boot_id": "b2"}
LAST = {"content": "Y2F1c2U6IG1vZGUKYm9vdF9pZDogYjEK"}  # cause: mode, boot_id: b1
API_SERVER, NO_API_SERVER = ({"__node_maintenance_manifest": {"stat": {"exists": exists}}} for exists in (True, False))
PLANES = {"kubernetes_control_plane": ["here"]}
RELEASE = "{{ 'Compare the release' if __gpu_operator_look else 'Apply the release' }}"
NODE = "Bring the Kubernetes node to state {{ __node_maintenance_state }}"

ASKS = [
    Asks(
        "gpu_node_e810_switch_ok", "devices.yml", "Switch the RDMA protocol of Intel E810 adapters", "when", False,
        {"gpu_node_e810_protocol": "roce"},
    ),
    Asks("gpu_node_e810_switch_ok", "present.yml", "Change RDMA devices, with consent", "when", False),
    Asks("gpu_node_return_stranded_ok", "present.yml", "Change RDMA devices, with consent", "when", False),
    Asks("gpu_node_return_stranded_ok", "devices.yml", "Move stranded devices back to the host", "when", False),
    Asks(
        "gpu_node_runtime_restart_ok", "present.yml", "Report whether a reboot or a restart of the container runtime is needed",
        "gpu_node_runtime_restart_required", True, LIMITED,
    ),
    Asks("gpu_node_runtime_restart_ok", "runtime.yml", "Restart the container runtime", "when", False),
    Asks("gpu_operator_disrupt_ok", "main.yml", "Look at what would change", "when", True, REAL),
    Asks("gpu_operator_disrupt_ok", "main.yml", "Refuse to take GPUs away from running pods", "when", True),
    Asks("gpu_operator_disrupt_ok", "release.yml", RELEASE, "disrupt", False, {"__gpu_operator_look": False}),
    *(
        Asks(
            "kubernetes_reset_consent", "reset.yml", "Refuse to remove a host from a cluster without consent", "that", False,
            {
                "__kubernetes_state_before": {"membership": {"kubelet": {"server": f"https://{server}"} if server else {}, "admin": None, "etcd": True}},
                "__kubernetes_endpoint": "192.0.2.10:6443",
                "kubernetes_cluster_name": name,
            },
            ("", "none", "true", "192.0.2.1:6443", *{"blue"}.difference(consents)), consents,
        )
        for server, name, consents in (
            ("192.0.2.10:6443", "blue", ("blue", "192.0.2.10:6443")),
            # another cluster than the one that the play is about
            ("192.0.2.20:6443", "blue", ("192.0.2.20:6443",)),
            # what is left of a cluster
            ("", "blue", ("blue",)),
            ("", "", ()),
        )
    ),
    Asks(
        "kubernetes_containerd_config", "present.yml", "Refuse a containerd configuration of another tool", "that", False,
        {"__kubernetes_runtime_wrong": ["no cgroups"], "__kubernetes_state_before": {"runtime": {"config_owner": "foreign"}}},
        ("keep",), ("take_over",),
    ),
    *(
        Asks("kubernetes_reset_without_backup_ok", file, task, "without_backup_ok", False)
        for file, task in (
            ("reset.yml", "Remove the host from its cluster"),
            ("cluster.yml", "Create the first control-plane node"),
            ("join.yml", "Join as a control-plane node"),
            ("join.yml", "Join as a worker"),
        )
    ),
    Asks("kubernetes_runtime_restart_ok", "runtime.yml", "Restart containerd", "when", False, JOINED),
    Asks(
        "kubernetes_runtime_restart_ok", "runtime.yml",
        "Refuse to leave a runtime with an outdated configuration", "when", True, JOINED,
    ),
    Asks(
        "node_maintenance_retry_same_cause", "reboot.yml", "Refuse a second reboot for the same cause", "that", False,
        {"__node_maintenance_before": BEFORE, "__node_maintenance_record": LAST},
    ),
    *(
        Asks(
            "node_maintenance_next_boot_unknown_ok", "reboot.yml", "Refuse a reboot that would not help", "that", False,
            {"__node_maintenance_would_help": unknown},
        )
        # ansible-core before 2.19 turns null into "" in set_fact.
        for unknown in (None, "")
    ),
    Asks("node_maintenance_reboot_ok", "reboot.yml", "Report that a reboot is pending", "when", True),
    Asks("node_maintenance_reboot_ok", "reboot.yml", "Stop before work on a node in the wrong mode", "when", True, REASON),
    Asks("node_maintenance_reboot_ok", "reboot.yml", "Refuse a host that must not be rebooted", "when", False),
    Asks("node_maintenance_reboot_ok", "reboot.yml", "Look at the RDMA devices", "when", False),
    Asks("node_maintenance_reboot_ok", "reboot.yml", "Reboot", "when", False, {"__node_maintenance_api_host": ""}),
    Asks(
        "node_maintenance_reboot_ok", "reboot.yml", "Reboot with the node out of the cluster", "when", False,
        {"__node_maintenance_api_host": "cp-1"},
    ),
    Asks(
        "node_maintenance_missing_ok", "devices.yml", "Look for the RDMA devices that were there before", "until", False,
        {"__node_maintenance_missing": ["guid"], "__node_maintenance_ends": 2e10},
    ),
    Asks("node_maintenance_missing_ok", "devices.yml", "Verify that they are back", "that", False, {"__node_maintenance_missing": ["guid"]}),
    Asks(
        "node_maintenance_undrained_ok", "refuse.yml", "Refuse a node that cannot be drained without consent", "that", False,
        {"node_maintenance_api_host": "", "__node_maintenance_kubelet": {"stat": {"exists": True}}},
    ),
    *(
        Asks("node_maintenance_control_plane_ok", "refuse.yml", "Refuse a host of the control plane without consent", "that", False, host)
        for host in (
            # has an API server by kubeadm, whatever the inventory has
            {**API_SERVER, "groups": {}},
            # is in the group, and a member of the cluster, or of one that kubeadm has not made
            {**NO_API_SERVER, "groups": PLANES, "__node_maintenance_member": {"stat": {"exists": True}}},
            {**NO_API_SERVER, "groups": PLANES, "__node_maintenance_member": {"skipped": True}},
        )
    ),
    *(
        Asks(f"node_maintenance_{option}", "node.yml", NODE, option, False)
        for option in ("control_plane_ok", "evict_gpu_pods", "force", "delete_emptydir_data", "missing_ok")
    ),
    Asks(
        "secondary_network_on_foreign", "present.yml", "Apply accounts, rights and resources to the cluster", "adopt", False, {},
        ("keep", "fail"), ("take_over",),
    ),
    Asks("secondary_network_reclaim_ok", "present.yml", "Audit the addresses", "reclaim", False),
    Asks(
        "training_job_remove_ok", "absent.yml", "Refuse to remove a job that has not finished", "when", True,
        {"__training_job_state": {"state": "running"}},
    ),
    Asks("training_job_force_conflicts", "present.yml", "Apply the job", "force_conflicts", False),
]  # fmt: skip
# A name that a module compares, and not a truth: tests of the plan try it.
COMPARED = {
    ("kubernetes_reset_consent", "present.yml", "Plan how the hosts become nodes of one cluster", "reset_consent"),
}


@pytest.mark.parametrize("asks", ASKS, ids=lambda asks: f"{asks.consent}-{asks.file}-{asks.key}")
def test_a_consent_is_asked_for_and_taken(asks: Asks) -> None:
    role = values(COLLECTION / "roles" / asks.role)

    def found(**given: Json) -> bool:
        return boolean(role.task(asks.file, asks.task, asks.key, **asks.situation, **given))

    assert found() is asks.without, "by default"
    for no in asks.refusals:
        assert found(**{asks.consent: no}) is asks.without, no
    for yes in asks.consents:
        assert found(**{asks.consent: yes}) is not asks.without, yes


def load(path: Path) -> Json:
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def test_every_task_that_asks_for_a_consent_is_tried() -> None:
    tried = {asks[:4] for asks in ASKS} | COMPARED
    for role in ROLES:
        defaults = load(COLLECTION / "roles" / role / "defaults/main.yml")
        consents = [name for name in defaults if CONSENT.fullmatch(name)]
        for path in (COLLECTION / "roles" / role / "tasks").glob("*.yml"):
            for task in tasks_of(load(path)):
                arguments = [value for name, value in task.items() if "." in name and isinstance(value, dict)]
                for key, value in [*task.items(), *(pair for argument in arguments for pair in argument.items())]:
                    for consent in consents if "." not in key and key not in WORDS else ():
                        if re.search(rf"\b{consent}\b", str(value)):
                            assert (consent, path.name, task["name"], key) in tried


def test_a_reboot_that_would_not_help_is_refused_whatever_the_consent() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    everything = {"node_maintenance_next_boot_unknown_ok": True, "node_maintenance_reboot_ok": True}
    for would_help in (True, False):
        result = role.task(
            "reboot.yml",
            "Refuse a reboot that would not help",
            "that",
            __node_maintenance_would_help=would_help,
            **everything,
        )
        assert boolean(result) is would_help


@pytest.mark.parametrize(
    ("would_help", "text"),
    [
        (False, "would not help: of a line"),
        (
            None,
            "may not help: of a line Set node_maintenance_next_boot_unknown_ok to true for one run to reboot all the same, once for this cause.",
        ),
    ],
)
def test_what_is_said_of_a_reboot_that_is_refused(would_help: bool | None, text: str) -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    message = role.task(
        "reboot.yml", "Refuse a reboot that would not help", "fail_msg",
        __node_maintenance_would_help=would_help, __node_maintenance_reason="of a line",
        inventory_hostname="gpu-1", node_maintenance_netns_mode="exclusive",
    )  # fmt: skip
    assert str(message).strip() == f"Rebooting gpu-1 into mode exclusive {text}"


def test_what_is_never_rebooted_whatever_the_consent() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    everything = {"node_maintenance_control_plane_ok": True, "node_maintenance_reboot_ok": True}
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for other, goes in ((boot_id, False), ("5c0bd1e4-9a4c-4b4e-8f3e-7f2f3a1f0c11", True)):
        before = {"__node_maintenance_before": {"boot_id": other}}
        assert role.task("refuse.yml", "Refuse the machine that this run is on", "that", **before, **everything) is goes


def test_a_host_of_the_group_that_is_no_member_yet_has_no_control_plane() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    name = "Refuse a host of the control plane without consent"
    fresh = {**NO_API_SERVER, "groups": PLANES, "__node_maintenance_member": {"stat": {"exists": False}}}
    assert role.task("refuse.yml", name, "that", **fresh) is True
    assert role.task("refuse.yml", name, "that", **{**fresh, **API_SERVER}) is False
    assert role.task("refuse.yml", name, "that", **{**fresh, "groups": {"gpu_nodes": ["here"]}}) is True


def test_a_node_that_can_be_drained_and_a_host_without_a_kubelet_need_no_consent() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    name = "Refuse a node that cannot be drained without consent"
    ran, never = ({"__node_maintenance_kubelet": {"stat": {"exists": exists}}} for exists in (True, False))
    assert role.task("refuse.yml", name, "that", node_maintenance_api_host="", **never) is True
    assert role.task("refuse.yml", name, "that", node_maintenance_api_host="", **ran) is False
    skipped = {"__node_maintenance_kubelet": {"skipped": True}}
    assert role.task("refuse.yml", name, "that", node_maintenance_api_host="cp-1", **skipped) is True
    message = role.task("refuse.yml", name, "fail_msg", inventory_hostname="gpu-1", **ran)
    assert str(message).strip() == (
        "Rebooting gpu-1 would end its pods: a kubelet has run on it (/var/lib/kubelet/device-plugins exists), and without a host in the group "
        "kubernetes_api (or in kubernetes_api_host) no Node is drained. Nothing was changed. Add the host that has the kubeconfig to that group, or set "
        "node_maintenance_undrained_ok to true for one run."
    )


def test_a_batch_is_not_larger_than_what_may_be_out() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    name = "Refuse a batch that is larger than the limit"
    for hosts, most, api, goes in ((1, 1, "cp", True), (2, 1, "cp", False), (2, "2", "cp", True), (2, 1, "", True)):
        given = {"ansible_play_batch": ["h"] * hosts, "__node_maintenance_api_host": api}
        assert role.task("refuse.yml", name, "that", node_maintenance_max_unavailable=most, **given) is goes


def test_a_look_changes_nothing_whatever_the_consent() -> None:
    role = values(COLLECTION / "roles/gpu_operator")
    for look, check in ((True, False), (False, True), (True, True), (False, False)):
        situation = {"__gpu_operator_look": look, "ansible_check_mode": check, "gpu_operator_disrupt_ok": True}
        assert role.task("release.yml", RELEASE, "check_mode", **situation) is (look or check)
