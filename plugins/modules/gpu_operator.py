#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_operator
short_description: Manage the Helm release of the NVIDIA GPU Operator
version_added: 0.1.0
description:
  - Installs, upgrades, repairs or uninstalls the release of the chart C(gpu-operator), with Helm 3 or Helm 4.
  - A release of the chart is found under any name and in any namespace, for example one created with C(--generate-name), and is taken over. The values are then
    exactly those given here, without anything that was set before.
  - The stored release is compared, and so are the live objects. If the ClusterPolicy or the GPUCluster was edited, the edit is shown and reverted.
  - From the chart v26.7.0 on, the operator runs one of two stacks. A ClusterPolicy offers GPUs by a device plugin. A GPUCluster offers them by Dynamic Resource
    Allocation, and NVIDIADrivers or the hosts provide the driver. O(values) select one by C(clusterPolicy.deployCR) and C(gpuCluster.deployCR). Two stacks in
    one cluster are refused before anything is done, and RV(move) lists what a move takes.
  - Fields that the API server drops because the CustomResourceDefinitions are older than the chart are detected before anything is done. Helm installs
    CustomResourceDefinitions with a new release only, never upgrades them, and leaves them behind when it uninstalls one.
  - The diff needs no Helm plugin, in check mode too. Secrets in it are hidden, by the kind C(Secret) and by the names of fields and variables.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Works before the namespace and the CustomResourceDefinitions exist, and with read-only rights. A change of the ClusterPolicy is then not tested on the
        API server, and a warning reports this.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - Without O(chart_version), the newest version of a chart in a repository will change some day.
options:
  state:
    description:
      - With V(absent), the release is uninstalled. RV(leftovers) lists what Helm leaves behind.
    type: str
    choices: [present, absent]
    default: present
  chart:
    description:
      - The chart as a directory, an archive, V(repository/name), V(oci://...), or a name together with O(chart_repo_url). Required with O(state=present).
      - For a repository that requires a login, run C(helm repo add) or C(helm registry login) as the same user first. Secrets are not passed to Helm as
        arguments.
    type: str
  chart_repo_url:
    description: URL of the chart repository.
    type: str
  chart_version:
    description: Version of the chart, such as V(v25.3.0). The default is the newest version that is not a pre-release, or the version of the directory or
      archive.
    type: str
  chart_checksum:
    description:
      - V(sha256:) and the digest of the chart's archive. An archive with another digest is not used. A directory has no digest.
      - Required if O(chart) or O(chart_repo_url) begins with V(http://).
    type: str
  name:
    description: Name of a new release. An existing one keeps its name.
    type: str
    default: gpu-operator
  namespace:
    description: Namespace of a new release. An existing one keeps its namespace.
    type: str
    default: gpu-operator
  create_namespace:
    description: Whether to create the namespace of a new release if it does not exist.
    type: bool
    default: false
  values:
    description:
      - Values for the chart, all those that differ from its defaults.
      - Values whose names suggest a secret (C(password), C(token), C(secret), C(api_key) and the like) are hidden in all output.
    type: dict
    default: {}
  driver_enabled:
    description: Whether the operator installs the driver (C(driver.enabled)). This option, like the following ones, must not contradict O(values).
    type: bool
  driver_version:
    description: Version of the driver (C(driver.version)).
    type: str
  driver_rdma:
    description: Whether the operator loads C(nvidia-peermem) for GPUDirect RDMA (C(driver.rdma.enabled)).
    type: bool
  driver_rdma_use_host_mofed:
    description: Whether the RDMA drivers are the host's own (C(driver.rdma.useHostMofed)).
    type: bool
  driver_kernel_module_type:
    description: Which of NVIDIA's kernel modules (C(driver.kernelModuleType)).
    type: str
    choices: [auto, open, proprietary]
  toolkit_enabled:
    description: Whether the operator installs the container toolkit (C(toolkit.enabled)).
    type: bool
  toolkit_version:
    description: Version of the container toolkit (C(toolkit.version)).
    type: str
  mig_strategy:
    description: How MIG devices are offered (C(mig.strategy)).
    type: str
    choices: [none, single, mixed]
  mig_manager:
    description: Whether MIG Manager runs (C(migManager.enabled)).
    type: bool
  dcgm_exporter:
    description: Whether the DCGM exporter runs (C(dcgmExporter.enabled)).
    type: bool
  dcgm_exporter_host_network:
    description: Whether the DCGM exporter listens on the nodes' own addresses (C(dcgmExporter.hostNetwork)), as a Prometheus outside of the cluster needs it.
    type: bool
  dcgm_exporter_service_monitor:
    description: Whether the DCGM exporter gets a ServiceMonitor (C(dcgmExporter.serviceMonitor.enabled)). Needs the Prometheus Operator; without it, the
      operator v26.7.0 and newer skips the ServiceMonitor, while older ones never become ready.
    type: bool
  gdrcopy:
    description: Whether GDRCopy is installed (C(gdrcopy.enabled)).
    type: bool
  nfd_enabled:
    description: Whether the chart installs Node Feature Discovery (C(nfd.enabled)).
    type: bool
  on_unknown_value:
    description:
      - What to do about values that the chart does not know and Helm therefore silently ignores. The message names the closest known value.
      - Known values are those in the chart's C(values.yaml), commented out or not, and those that its templates use. Values below open maps, such as
        C(nodeSelector), C(tolerations), C(env), C(resources), C(labels) and C(annotations), are not checked.
    type: str
    choices: [fail, warn, ignore]
    default: fail
  on_pruned:
    description:
      - What to do about fields of the chart's objects that the API server drops because the CustomResourceDefinition in the cluster does not have them. The
        operator never sees such a setting.
      - The remedy is O(upgrade_crds=true).
    type: str
    choices: [fail, warn]
    default: fail
  upgrade_crds:
    description:
      - Whether to apply the chart's CustomResourceDefinitions if they are missing from the API server or older there.
      - The chart's own mechanism, a Job before an upgrade (C(operator.upgradeCRD)), is taken into account if it is enabled.
    type: bool
    default: false
  on_pending:
    description:
      - What to do about a release that is C(pending-install), C(pending-upgrade), C(pending-rollback) or C(uninstalling).
      - Helm writes such a state before it starts work and another one afterwards. If it is killed, the state remains, and Helm then refuses to work.
      - With V(recover), the release is rolled back to its last deployed revision, or uninstalled if there is none, and then brought to the desired state. This
        is done if the state is older than O(pending_age) and no Helm process on this host is changing a release of this name and namespace, in this or another
        cluster. Processes on other hosts cannot be seen.
    type: str
    choices: [fail, recover]
    default: fail
  pending_age:
    description: How long a release must be pending before it is recovered, in seconds. Set it longer than any of your Helm runs may take.
    type: int
    default: 1800
  disrupt:
    description:
      - Whether to make a change that takes GPUs away from pods that hold them, such as one of the driver, the toolkit or MIG on an existing release, or its
        removal. Without consent the module refuses, in check mode too, and names the pods.
    type: bool
    default: false
  wait:
    description: Whether to wait until the ClusterPolicy or the GPUCluster is ready. Not in check mode.
    type: bool
    default: true
  wait_timeout:
    description:
      - Time limit for the ClusterPolicy or the GPUCluster to become ready, and for Helm with the hooks of the chart, in seconds each.
      - While Helm waits for a hook's Job that does not start, the reason (no node accepts its pod, its image cannot be pulled) is written to the system log of
        the host that runs the task (C(journalctl -f | grep gpu_operator)). It is in the error message, too.
    type: int
    default: 900
  helm_binary:
    description: Path or name of Helm. By default C(helm) in the E(PATH).
    type: str
requirements:
  - Helm 3.8 or newer, or Helm 4, on the host that runs the task.
seealso:
  - module: kubernetes.core.helm
notes:
  - Run it where the kubeconfig is, for example with C(delegate_to=localhost). Helm gets the connection through a temporary kubeconfig that only this user can
    read.
  - The user needs the right to list Secrets in all namespaces, because Helm stores its releases there.
"""

EXAMPLES = r"""
---
- name: Install the operator without its own driver, for GPUDirect RDMA with the host's RDMA drivers
  rdmaops.gpu_fabric.gpu_operator:
    chart: gpu-operator
    chart_repo_url: https://helm.ngc.nvidia.com/nvidia
    chart_version: v25.3.4
    create_namespace: true
    driver_rdma: true
    driver_rdma_use_host_mofed: true
    toolkit_version: v1.17.8-ubuntu20.04

- name: Upgrade from an archive, including the CustomResourceDefinitions
  rdmaops.gpu_fabric.gpu_operator:
    chart: /srv/charts/gpu-operator-v25.10.0.tgz
    upgrade_crds: true
    values:
      daemonsets:
        tolerations:
          - key: nvidia.com/gpu
            operator: Exists

- name: Offer GPUs by Dynamic Resource Allocation, in a cluster without a ClusterPolicy
  rdmaops.gpu_fabric.gpu_operator:
    chart: nvidia/gpu-operator
    chart_version: v26.7.1
    values:
      clusterPolicy:
        deployCR: false
      gpuCluster:
        deployCR: true
      driver:
        nvidiaDriverCRD:
          enabled: true

- name: Recover a release that a killed Helm process left pending
  rdmaops.gpu_fabric.gpu_operator:
    chart: nvidia/gpu-operator
    chart_version: v25.3.4
    on_pending: recover
"""

RETURN = r"""
release:
  description: The release before anything was done, or null.
  returned: success
  type: dict
  sample: {"name": "gpu-operator-1715330617", "namespace": "gpu-operator", "revision": 1, "status": "deployed", "chart": "gpu-operator-v24.3.0",
           "app_version": "v24.3.0"}
values:
  description: The desired values, including those of the typed options.
  returned: success
  type: dict
  sample: {"toolkit": {"version": "v1.17.8-ubuntu20.04"}}
unknown_values:
  description: Values that the chart does not know, each with the most similar known value.
  returned: success
  type: list
  elements: dict
  sample: [{"path": "toolkit-version", "nearest": "toolkit.version"}]
drift:
  description: Where live objects differ from the release. An empty path means that the whole object is missing.
  returned: success
  type: list
  elements: dict
  sample: [{"object": "ClusterPolicy cluster-policy", "path": "spec.driver.enabled", "live": false, "desired": true}]
pruned:
  description: Fields that the CustomResourceDefinitions in the cluster do not have and that the API server drops.
  returned: success
  type: list
  elements: dict
  sample: [{"object": "ClusterPolicy cluster-policy", "path": "spec.driver.kernelModuleType", "value": "open", "crd": "clusterpolicies.nvidia.com"}]
disruptive:
  description: Changes that take GPUs away from pods.
  returned: success
  type: list
  elements: str
  sample: ["ClusterPolicy cluster-policy spec.driver.version"]
gpu_pods:
  description: Pods that hold GPUs, by a resource, a device file or a ResourceClaim. Only determined if RV(disruptive) is not empty.
  returned: success
  type: list
  elements: dict
  sample: [{"namespace": "team-a", "name": "train-0", "node": "gpu-1", "holds": "nvidia.com/gpu: 8"}]
cluster_policy:
  description: The ClusterPolicy before anything was done, or null.
  returned: success
  type: dict
  sample: {"name": "cluster-policy", "state": "ready", "message": ""}
gpu_cluster:
  description: The GPUCluster before anything was done, or null.
  returned: success
  type: dict
  sample: {"name": "gpu-cluster", "state": "notReady", "message": "OperandNotReady: Waiting for operand pods to be ready"}
move:
  description: What a move from the stack in the cluster to the one in O(values) takes, and by whom. The module does none of it. NVIDIA does not support a move
    in place.
  returned: failure, when the cluster has the other stack
  type: list
  elements: str
  sample: ["cluster administrator: uninstall the release gpu-operator/gpu-operator with state=absent and disrupt=true, not with helm uninstall --no-hooks"]
leftovers:
  description: What Helm leaves behind after it has uninstalled the release. Remove CustomResourceDefinitions by hand (C(kubectl delete crd)), those of
    C(nfd.k8s-sigs.io) only if no other installation of node-feature-discovery uses them.
  returned: success
  type: list
  elements: str
  sample: ["CustomResourceDefinition clusterpolicies.nvidia.com"]
helm_version:
  description: Version of Helm.
  returned: success
  type: str
  sample: 4.2.4
actions:
  description: What was done, or would be done in check mode.
  returned: success
  type: list
  elements: str
  sample: ["Upgrade the helm release gpu-operator/gpu-operator to gpu-operator v25.10.0: from v25.3.4"]
resources:
  description: State of the release and its CustomResourceDefinitions before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "helm_release", "name": "gpu-operator/gpu-operator", "status": "in_sync", "desired": {"chart": "gpu-operator-v25.3.4", "values": {}},
       "configured": {"chart": "gpu-operator-v25.3.4", "values": {}, "status": "deployed", "revision": 1}, "live": {"drift": 0, "pruned": 0}, "next_boot": null}
after:
  description: The state afterwards. The ClusterPolicy and the GPUCluster are null in check mode and without O(wait).
  returned: success
  type: dict
  sample:
    release: {"name": "gpu-operator", "namespace": "gpu-operator", "revision": 2, "status": "deployed", "chart": "gpu-operator-v25.10.0",
              "app_version": "v25.10.0"}
    cluster_policy: {"name": "cluster-policy", "state": "ready", "message": ""}
    gpu_cluster: null
    pruned: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError, fail
from ..module_utils._gpu_operator.cluster import Cluster
from ..module_utils._gpu_operator.compare import secrets
from ..module_utils._gpu_operator.manage import manage
from ..module_utils._gpu_operator.model import Host
from ..module_utils._helm.client import Helm, workplace
from ..module_utils._kubernetes.client import CONNECTION, connect

SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "chart": {"type": "str"},
    "chart_repo_url": {"type": "str"},
    "chart_version": {"type": "str"},
    "chart_checksum": {"type": "str"},
    "name": {"type": "str", "default": "gpu-operator"},
    "namespace": {"type": "str", "default": "gpu-operator"},
    "create_namespace": {"type": "bool", "default": False},
    "values": {"type": "dict", "default": {}},
    "driver_enabled": {"type": "bool"},
    "driver_version": {"type": "str"},
    "driver_rdma": {"type": "bool"},
    "driver_rdma_use_host_mofed": {"type": "bool"},
    "driver_kernel_module_type": {"type": "str", "choices": ["auto", "open", "proprietary"]},
    "toolkit_enabled": {"type": "bool"},
    "toolkit_version": {"type": "str"},
    "mig_strategy": {"type": "str", "choices": ["none", "single", "mixed"]},
    "mig_manager": {"type": "bool"},
    "dcgm_exporter": {"type": "bool"},
    "dcgm_exporter_host_network": {"type": "bool"},
    "dcgm_exporter_service_monitor": {"type": "bool"},
    "gdrcopy": {"type": "bool"},
    "nfd_enabled": {"type": "bool"},
    "on_unknown_value": {"type": "str", "choices": ["fail", "warn", "ignore"], "default": "fail"},
    "on_pruned": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
    "upgrade_crds": {"type": "bool", "default": False},
    "on_pending": {"type": "str", "choices": ["fail", "recover"], "default": "fail"},
    "pending_age": {"type": "int", "default": 1800},
    "disrupt": {"type": "bool", "default": False},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 900},
    "helm_binary": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={**CONNECTION, **SPEC},
        required_if=[("state", "present", ["chart"])],
        supports_check_mode=True,
    )
    # The arguments are shown at high verbosity.
    module.no_log_values.update(secrets(module.params["values"]))
    try:
        client = connect(module)
        with workplace(module.tmpdir) as directory:
            helm = Helm(module.params["helm_binary"], client, directory, say=module.log)
            result = manage(module.params, module.check_mode, Host(helm, Cluster(client), module.warn))
    except (FabricError, OSError) as exc:
        fail(module, exc, **getattr(exc, "result", {}))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
