# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Plan the step of each host towards one cluster: init, join, start or none.

Values in, a plan out. Nothing is queried here, and nothing is changed.
"""

from __future__ import annotations

import json
import typing as t

import yaml

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN, resource
from ...module_utils._formats import from_yaml
from ...module_utils._kubeadm.standing import BROKEN, WORKS, begun, leftovers, standing
from . import kubeadm_config as config
from . import preflight

Json = t.Dict[str, t.Any]
Hosts = t.Mapping[str, t.Mapping[str, t.Any]]

INIT, JOIN, START, NONE, REFUSE = "init", "join", "start", "none", "refuse"
USER = "system:node:"


class Options(t.NamedTuple):
    """Options in addition to the cluster's settings."""

    source: str = "packages"
    ignore: t.Sequence[str] = ()
    avoid: t.Sequence[str] = ()
    least_mib: int = 700
    on_difference: str = "fail"
    renew: str = "never"
    renew_before_days: int = 30
    # All control-plane hosts of the inventory: one that could not be checked may have the cluster.
    group: t.Sequence[str] = ()
    # The cluster whose data may be removed, by its name or server.
    reset_consent: str = ""


class Step(t.NamedTuple):
    """The action on a host, and its reason."""

    action: str
    reason: str
    clean: bool = False
    # The data to remove may include that of etcd.
    discard_etcd: bool = False


def remedy(host: str, server: str) -> str:
    return (
        "Leave it out with --limit, or remove it from there: "
        "-e kubernetes_state=reset -e kubernetes_reset_consent=%s --limit %s" % (server, host)
    )


def server_of(member: t.Mapping[str, t.Any], fallback: str) -> str:
    """Return HOST:PORT of the API server of a host's cluster, by which consent names it."""
    for name in ("kubelet", "admin"):
        if member.get(name) and member[name].get("server"):
            return str(member[name]["server"]).partition("://")[2].rstrip("/")
    return fallback


def names(member: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of a host's cluster for consent."""
    server = server_of(member, "")
    own = [settings["cluster_name"]] if server in ("", settings["endpoint"]) else []
    return [*([server] if server else []), *own]


def whole_control_plane(member: t.Mapping[str, t.Any]) -> bool:
    return bool(
        member["kubelet"] and member["admin"] and member["authority"] and (member["manifests"] or member["parked"])
    )


class Planner:
    """The hosts of a run, and their cluster if there is one."""

    def __init__(self, hosts: Hosts, settings: t.Mapping[str, t.Any], options: Options) -> None:
        self.hosts = hosts
        self.settings = settings
        self.options = options
        self.control_plane = [name for name, entry in hosts.items() if entry["control_plane"]]
        self.leader = self._leader()
        self.authority: str | None = None
        self.nodes: dict[str, Json] = {}
        self.problems: list[str] = []
        # The action of the leader's step.
        self.verdict = ""

    def member(self, host: str) -> t.Mapping[str, t.Any]:
        return t.cast("t.Mapping[str, t.Any]", self.hosts[host]["info"]["membership"])

    def _leader(self) -> str:
        """Return the control-plane host for queries of the cluster: the first complete one, else the first."""
        whole = [
            name
            for name in self.control_plane
            if whole_control_plane(self.member(name))
            and (begun(self.member(name)) != INIT or standing(self.member(name))[0] == WORKS)
        ]
        return (whole or self.control_plane or [""])[0]

    # --- steps ---

    def leader_step(self) -> Step:
        """Return the step of the leader."""
        host, member = self.leader, self.member(self.leader)
        cluster = self.hosts[host]["info"]["cluster"]
        verdict, refused = standing(member)
        if refused:
            return Step(REFUSE, refused)
        if not leftovers(member):
            others = [name for name in self.hosts if name != host and self.member(name)["kubelet"]]
            if others:
                return Step(
                    REFUSE,
                    "it should become the first control-plane node of a new cluster, but %s already belong to one "
                    "(%s). Name a control-plane node of that cluster in the group, or remove them from it"
                    % (", ".join(others), server_of(self.member(others[0]), "?")),
                )
            unseen = [name for name in self.options.group if name not in self.hosts]
            if unseen:
                return Step(
                    REFUSE,
                    "it would be the first node of a new cluster, and %s could not be checked and may have one. Fix "
                    "that, or remove it from the group" % ", ".join(unseen),
                )
            return Step(INIT, "no host is a node yet")
        if verdict == BROKEN and begun(member) == INIT and not (cluster or {}).get("reachable"):
            return self._retry_init(host)
        if not whole_control_plane(member):
            return Step(REFUSE, self._partial_reason(host))
        if not (cluster or {}).get("reachable"):
            return Step(
                REFUSE,
                "its API server (%s) does not answer: %s. Check journalctl -u kubelet there, and run again; "
                "kubernetes_wait sets how long to wait for it%s"
                % (
                    server_of(member, self.settings["endpoint"]),
                    (cluster or {}).get("error") or "it was not contacted",
                    # A host with data is never treated as a leftover, though it may be one.
                    ". Its kubeadm init did not finish. %s" % remedy(host, names(member, self.settings)[0])
                    if begun(member)
                    else "",
                ),
            )
        if cluster.get("cluster_configuration") is None:
            return Step(
                REFUSE,
                "its cluster has no ConfigMap kubeadm-config: kubeadm did not create it, or did not finish. %s"
                % remedy(host, server_of(member, "?")),
            )
        return (
            Step(NONE, "it is a control-plane node")
            if self.hosts[host]["name"] in {node["name"] for node in cluster["nodes"]}
            else Step(START, "its kubelet has not registered it")
        )

    def _retry_init(self, host: str) -> Step:
        """Return the step after an interrupted kubeadm init whose control plane does not answer."""
        member = self.member(host)
        consent = names(member, self.settings)
        if member["etcd"] and self.options.reset_consent not in consent:
            return Step(
                REFUSE,
                "its kubeadm init was interrupted, and etcd has data. To remove it and begin again, set "
                "kubernetes_reset_consent=%s; a copy of the data is kept below /var/lib/rdmaops" % " or ".join(consent),
            )
        return Step(INIT, "an earlier kubeadm init was interrupted", clean=True, discard_etcd=bool(member["etcd"]))

    def _partial_reason(self, host: str) -> str:
        member = self.member(host)
        return "kubeadm has left %s and no complete control-plane node. %s" % (
            ", ".join(leftovers(member)),
            remedy(host, server_of(member, str(self.settings["cluster_name"]))),
        )

    def other_step(self, host: str) -> Step:
        """Return the step of any other host."""
        member = self.member(host)
        verdict, refused = standing(member)
        if refused:
            return Step(REFUSE, refused)
        interrupted = verdict == BROKEN and begun(member) == JOIN
        again = Step(JOIN, "an earlier kubeadm join was interrupted", clean=True, discard_etcd=bool(member["etcd"]))
        if member["kubelet"] is None:
            if interrupted:
                return self._if_name_is_free(host, again)
            if leftovers(member):
                return Step(REFUSE, self._partial_reason(host))
            return self._if_name_is_free(host, Step(JOIN, "it is not a node yet"))
        reason = self._foreign_reason(host)
        if reason:
            return Step(REFUSE, reason)
        if interrupted and not self._has_joined(host):
            return again
        return self._member_step(host)

    def _foreign_reason(self, host: str) -> str | None:
        """Return why a host with a kubelet is not the node of this cluster that it should be."""
        kubelet, name = self.member(host)["kubelet"], self.hosts[host]["name"]
        server = server_of(self.member(host), "?")
        if self.authority is None or kubelet["authority"] != self.authority:
            return "it is a node of another cluster (%s). %s" % (server, remedy(host, server))
        if kubelet["user"] and kubelet["user"] != USER + name:
            user = kubelet["user"][len(USER) :] if kubelet["user"].startswith(USER) else kubelet["user"]
            return "it is in the cluster as %s, and not as %s: set kubernetes_node_name. %s" % (
                user, name, remedy(host, server),
            )  # fmt: skip
        return None

    def _has_joined(self, host: str) -> bool:
        """Return whether kubeadm join was completed, though it is marked as interrupted."""
        if self.hosts[host]["name"] not in self.nodes:
            return False
        return not self.hosts[host]["control_plane"] or whole_control_plane(self.member(host))

    def _member_step(self, host: str) -> Step:
        """Return the step of a host that belongs to the cluster."""
        member, entry = self.member(host), self.hosts[host]
        is_control_plane = bool(member["manifests"] or member["parked"])
        if is_control_plane != bool(entry["control_plane"]):
            return Step(
                REFUSE,
                "it is a %s of the cluster but should be a %s, and kubeadm converts neither into the other. %s"
                % (
                    *(("control-plane node", "worker") if is_control_plane else ("worker", "control-plane node")),
                    remedy(host, server_of(member, "?")),
                ),
            )
        node = self.nodes.get(entry["name"])
        if node is None:
            return Step(START, "its kubelet has not registered it")
        machine = entry["info"]["host"]["machine_id"]
        if node["machine_id"] and machine and node["machine_id"] != machine:
            return Step(
                REFUSE,
                "the Node %s of the cluster is another machine (machine ID %s, here %s)"
                % (entry["name"], node["machine_id"], machine),
            )
        return Step(NONE, "it is a node")

    def _if_name_is_free(self, host: str, step: Step) -> Step:
        """Return the step if the node's name is free: kubeadm join refuses if a Node of that name is Ready."""
        node = self.nodes.get(self.hosts[host]["name"])
        if node and node["ready"] and node["machine_id"] != self.hosts[host]["info"]["host"]["machine_id"]:
            return Step(
                REFUSE,
                "a Node %s is in the cluster and ready, and is another machine. Set kubernetes_node_name, or delete "
                "that Node" % node["name"],
            )
        return step

    # --- the plan ---

    def steps(self) -> dict[str, Step]:
        if not self.leader:
            self.problems.append(
                "the hosts of this run include no control-plane host: fill the group kubernetes_control_plane, "
                "or do not exclude it with --limit"
            )
            return {}
        first = self.leader_step()
        self.verdict = first.action
        steps = {self.leader: first}
        if first.action in (NONE, START):
            member, cluster = self.member(self.leader), self.hosts[self.leader]["info"]["cluster"]
            self.authority = member["authority"]["fingerprint"]
            self.nodes = {node["name"]: node for node in cluster["nodes"]}
        for host in self.hosts:
            if host != self.leader:
                if first.action == REFUSE:
                    # The steps of the others depend on the leader.
                    steps[host] = Step(NONE, "waits for %s" % self.leader)
                else:
                    steps[host] = self.other_step(host)
        return steps

    def judge(self, steps: t.Mapping[str, Step]) -> list[str]:
        """Return everything that prevents the plan."""
        problems = [*self.problems, *preflight.cluster(self.settings, self.hosts, self.options.avoid)]
        for host, step in steps.items():
            entry = self.hosts[host]
            rows = [step.reason] if step.action == REFUSE else []
            # If the leader is refused, the problems of hosts that wait for it are reported, too.
            if step.action in (INIT, JOIN) or (self.verdict == REFUSE and not leftovers(self.member(host))):
                # Of other sources, the role installs the version of the settings.
                programs = entry["info"]["programs"] if self.options.source == "local" else {}
                rows += preflight.skew(self.settings, programs, self.options.source)
                kubelet = programs.get("kubelet") or self.settings["version"]
                rows += preflight.runtime(kubelet, entry["info"]["programs"].get("containerd"), self.options.ignore)
                rows += preflight.host(self.settings, entry, self.options.ignore, self.options.least_mib, step.clean)
            elif step.action in (NONE, START):
                rows += preflight.skew(self.settings, entry["info"]["programs"], "")
            problems += ["%s: %s" % (host, row) for row in rows]
        return problems


def _parse(text: str | None) -> t.Any:
    try:
        return from_yaml(text or "")
    except ValueError:
        return None


def _dump(value: t.Any) -> str:
    # Convert Ansible's subclasses of str and dict: PyYAML's safe representer does not support them.
    return yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=True, default_flow_style=False)


def compare(settings: t.Mapping[str, t.Any], cluster: t.Mapping[str, t.Any] | None) -> tuple[list[Json], list[Json]]:
    """Return the differences of kubeadm's configuration in a cluster from the desired one, as rows and as a diff."""
    rows: list[Json] = []
    diff: list[Json] = []
    if not cluster or not cluster.get("reachable"):
        return rows, diff
    for name, desired, text in (
        ("kubeadm-config", config.cluster_configuration(settings), cluster.get("cluster_configuration")),
        ("kubelet-config", config.kubelet_configuration(settings), cluster.get("kubelet_configuration")),
    ):
        live = _parse(text)
        differences = config.differences(desired, live)
        rows += [{"object": name, "path": row.path, "wanted": row.desired, "live": row.live} for row in differences]
        if differences:
            header = "ConfigMap kube-system/%s" % name
            diff.append(
                {
                    "before_header": header,
                    "after_header": header,
                    "before": _dump(config.subset(live, desired)),
                    "after": _dump(desired),
                }
            )
    return rows, diff


def sentence(row: t.Mapping[str, t.Any]) -> str:
    """Return one difference as a sentence."""
    live, desired = json.dumps(row["live"]), json.dumps(row["wanted"])
    return "%s of the cluster has %s %s, and %s is wanted" % (row["object"], row["path"], live, desired)


def certificates(hosts: Hosts, days: int) -> tuple[list[Json], list[Json]]:
    """Return the certificates that end within ``days`` or cannot be read, and a resource for each certificate."""
    due, rows = [], []
    for host, entry in hosts.items():
        for row in entry["info"]["certificates"]:
            left = row["days"]
            ends = left is None or left < days
            if ends:
                due.append(
                    {
                        "host": host,
                        "name": row["name"],
                        "path": row["path"],
                        "days": left,
                        "renewable": row["renewable"],
                    }
                )
            status = UNKNOWN if left is None else DRIFT if ends else IN_SYNC
            # Without days, which would change every report.
            live = "cannot be read" if left is None else "ends in %d days" % left if ends else "valid"
            rows.append(
                resource("certificate", "%s:%s" % (host, row["path"]), desired="valid", live=live, status=status)
            )
    return due, rows


def plan(hosts: Hosts, settings: t.Mapping[str, t.Any], options: Options) -> Json:
    """Return the step of each host, the problems that prevent it, and what has drifted."""
    problems = config.problems(settings)
    if problems:
        return {**_empty_plan(hosts), "problems": problems}
    planner = Planner(hosts, settings, options)
    steps = planner.steps()
    problems = planner.judge(steps)
    cluster = hosts[planner.leader]["info"]["cluster"] if planner.leader else None
    rows, diff = compare(
        settings, cluster if steps.get(planner.leader, Step(REFUSE, "")).action in (NONE, START) else None
    )
    if options.on_difference == "fail":
        problems += [
            "%s. An existing cluster is not changed here: change it with kubeadm, write its value in the variables, or "
            "set kubernetes_on_difference=report" % sentence(row)
            for row in rows
        ]
    due, resources = certificates(hosts, options.renew_before_days)
    renewable = {row["host"] for row in due if row["renewable"]}
    return {
        "leader": planner.leader,
        "hosts": {
            host: {
                **step._asdict(),
                "renew": options.renew == "due" and host in renewable and step.action == NONE,
                "unpark": bool(planner.member(host)["parked"]) and step.action == NONE,
                "unmark": begun(planner.member(host)) is not None and step.action in (NONE, START),
            }
            for host, step in steps.items()
        },
        "joining": [host for host, step in steps.items() if step.action == JOIN],
        "joining_control_plane": [
            host for host, step in steps.items() if step.action == JOIN and hosts[host]["control_plane"]
        ],
        "problems": problems,
        "differences": rows,
        "diff": diff,
        "certificates": due,
        "resources": [
            *(_node_row(host, step) for host, step in steps.items()),
            *(
                resource(
                    "kubeadm_configuration",
                    "%s:%s" % (row["object"], row["path"]),
                    desired=row["wanted"],
                    live=row["live"],
                    status=DRIFT,
                )
                for row in rows
            ),
            *resources,
        ],
    }


def _empty_plan(hosts: Hosts) -> Json:
    return {
        "leader": "",
        "hosts": {},
        "joining": [],
        "joining_control_plane": [],
        "problems": [],
        "differences": [],
        "diff": [],
        "certificates": [],
        "resources": [resource("kubernetes_node", host, desired="a node", status=UNKNOWN) for host in hosts],
    }


def _node_row(host: str, step: Step) -> Json:
    status = {NONE: IN_SYNC, REFUSE: UNKNOWN}.get(step.action, DRIFT)
    return resource("kubernetes_node", host, desired="a node", live=step.reason, status=status)


__all__ = ("INIT", "JOIN", "NONE", "Options", "REFUSE", "START", "Step", "certificates", "compare", "plan", "sentence")
