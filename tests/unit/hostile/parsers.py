# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every parser by its name: how it is called, with which inputs, and how it may refuse them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import tarfile

import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter import (
    fabric_rounds,
    kubeadm_config,
    nccl_env,
    nccl_log,
    nccl_tests,
    perftest,
    rail_plan,
    rails,
    rping,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import bls, efi, grub_shell
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import files as boot_files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import config, install, ranges
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import host, pod
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import compare
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import values as gpu_operator_values
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import chart as helm_chart
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import output as helm_output
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import network
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images import build, containerd, oci
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import contents, reader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod import cmdline, conflict
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod import config as kmod
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import node, work, x509
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import ssh_secret
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import prediction
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def import uses
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import cgroups, survey
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec import files as pod_files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import devices, drivers, kernel, netlink, nldev
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts import plugins
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output import ibv_devinfo, nvidia_smi
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.listeners import listeners_in
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import log
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._whereabouts import allocations
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import configmap, report
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._filter import AnsibleTypeError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes import plan
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import server, web_config
from ansible_collections.rdmaops.gpu_fabric.tests.unit.hostile import inputs
from ansible_collections.rdmaops.gpu_fabric.tests.unit.hostile.inputs import (
    Parser,
    documents,
    escaped,
    octets,
    outputs,
    texts,
    values,
    written,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs import images
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes import test_ssh_secret as keys
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._whereabouts import (
    test_allocations as pools,
)


def initramfs(content: bytes) -> object:
    return reader.read([("/boot/image", inputs.SCRATCH.of(content))])


def grub(text: str) -> object:
    try:
        return grub_shell.variables(text, "/nonexistent")
    except grub_shell.Stop:  # the script boots something, or ends
        return None


def chart(about: str) -> object:
    files = {"Chart.yaml": about.encode("utf-8", "surrogateescape"), "values.yaml": inputs.CHART_VALUES.encode()}
    return helm_chart._chart("/x", files)


def chart_values(text: str) -> object:
    files = {"Chart.yaml": inputs.CHART.encode(), "values.yaml": text.encode("utf-8", "surrogateescape")}
    content = helm_chart._chart("/x", files)
    return gpu_operator_values.unknown({"driver": {"rdma": {"enabled": True}, "versoin": 1}, "nfd": {"x": {}}}, content)


def archive(content: bytes) -> object:
    return helm_chart.read(inputs.SCRATCH.of(content))


def tarball(**files: str) -> bytes:
    with io.BytesIO() as sink:
        with tarfile.open(fileobj=sink, mode="w:gz") as content:
            for name, text in files.items():
                member = tarfile.TarInfo("gpu-operator/" + name)
                member.size = len(text.encode())
                content.addfile(member, io.BytesIO(text.encode()))
        return sink.getvalue()


def packed(text: str) -> object:
    data = base64.b64encode(gzip.compress(text.encode("utf-8", "surrogatepass"), 1)).decode()
    return configmap.unpack({"binaryData": {configmap.REPORT: data}}, "x")


def damaged(data: bytes) -> object:
    return configmap.unpack({"binaryData": {configmap.REPORT: base64.b64encode(data).decode()}}, "x")


def delegating(text: str) -> object:
    return install.delegating("/x", '{"name": "multus"}', inputs.SCRATCH.of(escaped(text)))


def pod_interfaces(text: str) -> object:
    return allocations.read_pod(
        {"metadata": {"name": "p", "namespace": "n", "annotations": {"k8s.v1.cni.cncf.io/network-status": text}}}
    )


def nldev_answer(data: bytes) -> None:
    for message in netlink.messages(data):
        for read in (nldev.device, nldev.port, nldev.system_info, nldev.resource_summary, nldev.counters):
            with contextlib.suppress(nldev.NldevError):
                read(message.payload)
        with contextlib.suppress(nldev.NldevError):
            netlink.status(message)


def web(text: str) -> object:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        document = text
    return web_config.WebConfig("/x", document)


def procfs(text: str) -> None:
    for read in (node.swaps_in, node.cgroup_in, node.memory_in, listeners_in, network.mounts, host.default_route):
        read(text)
    pod.memlock_in(text, text)
    pod_files.parse(text, "sign")
    node.version_in(text)
    node.conffile_in(text, "/etc/x")


OF_OTHERS = (survey.process, survey.mounts, cgroups.cgroup_unit, cgroups.cgroup_pod, cgroups.containers)
FILTER = (AnsibleFilterError, AnsibleTypeError)
BOOT = inputs.UTILS / "boot"
HELM = inputs.UTILS / "helm"
CTR = inputs.UTILS / "containerd"

PARSERS: dict[str, Parser] = {
    "modprobe.d": Parser(lambda text: kmod.parse("/etc/modprobe.d/a.conf", text), written(*inputs.MODPROBE_D)),
    "modprobe.d less options": Parser(
        lambda text: conflict.without(text, {("ib_core", "netns_mode"), ("mlx5_core", "prof_sel")}),
        written(*inputs.MODPROBE_D),
    ),
    "kernel command line": Parser(
        lambda text: (cmdline.cmdline_settings(text, "ib_core"), prediction.cmdline_value(text, "ib_core", "x", True)),
        written(*inputs.CMDLINES),
    ),
    "dracut's command line": Parser(lambda text: contents.from_cmdline("dracut", text), written(*inputs.CMDLINES)),
    "GRUB configuration": Parser(grub, written(*sorted(BOOT.glob("*.cfg"))), (boot_files.BootError,)),
    "GRUB environment": Parser(grub_shell.read_grubenv, written(BOOT / "grubenv-2.12-saved")),
    "BLS entry": Parser(
        lambda text: [bls.parse_entry("/x/y.conf", text, by_grub) for by_grub in (True, False)], written(*inputs.BLS)
    ),
    "PE image": Parser(efi.pe_sections, octets(b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0" + bytes(400))),
    "modules.dep": Parser(kernel._find, written(inputs.PROC["usr/lib/modules/7.2.12+deb13-amd64/modules.dep"])),
    "initramfs": Parser(
        initramfs, octets(images.cpio(*images.DEBIAN), images.MICROCODE + bytes(512) + images.cpio(*images.TREE))
    ),
    "compressed initramfs": Parser(
        initramfs,
        octets(*(images.COMPRESSORS[name](images.cpio(*images.DEBIAN)) for name in ("gzip", "xz", "lzma", "bzip2"))),
    ),
    "nldev": Parser(nldev_answer, octets(*inputs.NLDEV)),
    "module's symbols": Parser(drivers.symbols, octets(b"\x7fELF\x02\x01\x01" + bytes(57) + b"ib_register_device\0")),
    "sysfs rate": Parser(devices.rate_gbps, written("400 Gb/sec (4X NDR)\n", "2.5 Gb/sec (1X SDR)", "0 Gb/sec")),
    "sysfs counter": Parser(devices.counter, written("42\n", "18446744073709551615\n", "N/A (no PMA)\n")),
    "nvidia_smi": Parser(
        lambda text: (nvidia_smi.parse(text), nvidia_smi.cuda(text)),
        written(*sorted((inputs.UTILS / "nvidia_smi").glob("*.txt"))),
    ),
    "ibv_devinfo": Parser(ibv_devinfo.parse, written(*sorted((inputs.UTILS / "ibv_devinfo").glob("*.txt")))),
    "perftest": Parser(perftest.perftest, texts(*outputs("perftest_*.txt")), FILTER),
    "perftest JSON": Parser(
        perftest.perftest, documents(*(path.read_text() for path in outputs("perftest_*.json"))), FILTER
    ),
    "perftest value": Parser(
        perftest.perftest, values({"test_info": {"test": "x"}, "results": {"MsgSize": 2, "BW_average": 1.5}}), FILTER
    ),
    "rping": Parser(rping.rping, texts(*outputs("rping_*.txt")), FILTER),
    "nccl_log": Parser(nccl_log.nccl_log, texts(*outputs("nccl[-_][!t]*.txt")), FILTER),
    "nccl_tests": Parser(nccl_tests.nccl_tests, texts(*outputs("nccl-tests*.txt")), FILTER),
    "training log": Parser(
        lambda text: log.transport({"p": log.Log(text, text, True, None)}), written(*outputs("nccl[-_][!t]*.txt"))
    ),
    "nccl_env": Parser(
        nccl_env.nccl_env, values(inputs.INFO, {"gpu-1": inputs.INFO, "gpu-2": inputs.INFO}, [inputs.INFO]), FILTER
    ),
    "rails": Parser(rails.rails, values(inputs.INFO), FILTER),
    "rail_plan": Parser(
        lambda info: rail_plan.rail_plan(info, "10.100.0.0/16"),
        values({"a": inputs.PLAN_NODE, "b": inputs.PLAN_NODE}),
        FILTER,
    ),
    "rail_plan existing": Parser(
        lambda existing: rail_plan.rail_plan({"a": inputs.PLAN_NODE}, "10.100.0.0/16", existing=existing),
        values([inputs.OBJECT, inputs.OBJECT]),
        FILTER,
    ),
    "fabric_rounds": Parser(fabric_rounds.fabric_rounds, values(["a", "b", "c"], inputs.HOSTS), FILTER),
    "kubeadm_config": Parser(
        lambda settings: kubeadm_config.kubeadm_config(
            settings, "init", {"name": "cp-1", "address": "192.0.2.1", "control_plane": True}
        ),
        values(inputs.SETTINGS),
        FILTER,
    ),
    "kubeadm ConfigMap": Parser(
        lambda text: plan.compare(
            inputs.SETTINGS, {"reachable": True, "cluster_configuration": text, "kubelet_configuration": text}
        ),
        written(
            "apiVersion: kubeadm.k8s.io/v1beta4\napiServer:\n  certSANs: [a, b]\nclusterName: x\nnetworking: {podSubnet: 1}\n"
        ),
    ),
    "CNI configuration": Parser(config.parse, documents(inputs.NAD, inputs.NAD["plugins"][0])),
    "CNI ranges": Parser(
        ranges.parse_network, texts("10.1.0.0/24", "fd00::/64", "10.1.0.0-10.1.0.9/24"), (ValueError,)
    ),
    "networks annotation": Parser(lambda text: uses.named(text, "default"), documents(*inputs.NETWORKS)),
    "shared plugin": Parser(plugins.shares_in, documents(inputs.SHARED)),
    "whole plugin": Parser(plugins.whole_in, documents(inputs.WHOLE)),
    "whereabouts pod": Parser(
        pod_interfaces, documents([{"name": "x/rail0", "interface": "net1", "ips": ["10.1.0.2"], "default": False}])
    ),
    "whereabouts range": Parser(
        lambda text: allocations.read_pool(pools.pool({"1": {"podref": "a/b", "id": "c"}}, text=text), {"n"}),
        texts("10.100.0.0/28", "fd00::/120"),
    ),
    "whereabouts offset": Parser(
        lambda text: allocations.read_pool(pools.pool({text: {"podref": text, "id": text}}), {"n"}),
        texts("1", "13", "a/b"),
    ),
    "pod network of Multus": Parser(delegating, documents(inputs.NAD, inputs.NAD["plugins"][0])),
    "token": Parser(
        lambda text: (install.token_in(text), install.expiry(text)),
        documents({"users": [{"user": {"token": "a.eyJleHAiOjF9.b"}}]}, "a.eyJleHAiOjF9.b"),
    ),
    "helm list": Parser(helm_output.parse_list, documents(*(path.read_text() for path in HELM.glob("*_list*.json")))),
    "helm history": Parser(
        helm_output.parse_history, documents(*(path.read_text() for path in HELM.glob("*_history.json")))
    ),
    "helm release": Parser(
        lambda text: helm_output.parse_release(text, text), written(*sorted(HELM.glob("*_get_all.txt")), '{"a": 1}')
    ),
    "helm version": Parser(lambda text: helm_output.parse_version(text, "helm"), written("v3.18.4+gd80839c", "v4.0.0")),
    "helm's last lines": Parser(helm_output.last_lines, written(*sorted(HELM.glob("*_hook.txt")))),
    "chart": Parser(chart, written(inputs.CHART)),
    "chart values": Parser(chart_values, written(inputs.CHART_VALUES)),
    "chart archive": Parser(
        archive, octets(tarball(**{"Chart.yaml": inputs.CHART, "values.yaml": inputs.CHART_VALUES}))
    ),
    "archive of an archive": Parser(
        lambda content: archive(gzip.compress(content, 1)),
        octets(gzip.decompress(tarball(**{"Chart.yaml": inputs.CHART, "charts/nfd/Chart.yaml": inputs.CHART}))),
    ),
    "manifest": Parser(compare.documents, written(inputs.MANIFESTS)),
    "ctr version": Parser(containerd.parse_version, written(*sorted(CTR.glob("*_version.txt")))),
    "ctr images": Parser(containerd.parse_images, written(*sorted(CTR.glob("*_images*.txt")))),
    "ctr plugins": Parser(containerd.parse_store, written(*sorted(CTR.glob("*_content.txt")))),
    "ctr's last lines": Parser(
        lambda text: (containerd.last_lines(text), containerd.advice(text)), written(*sorted(CTR.glob("*_pull_*.txt")))
    ),
    "image name": Parser(oci.parse_name, texts("ghcr.io/a/b:1.2@" + inputs.DIGEST, "localhost:5000/x")),
    "image manifest": Parser(
        lambda text: oci.required(inputs.DIGEST, 1, lambda _digest: text.encode("utf-8", "surrogatepass"), "amd64"),
        documents({key: inputs.MANIFEST[key] for key in ("config", "layers")}),
    ),
    "image index": Parser(
        lambda text: oci.configuration(inputs.DIGEST, lambda _digest: text.encode("utf-8", "surrogatepass"), "amd64"),
        documents(inputs.MANIFEST),
    ),
    "buildah inspect": Parser(build.label_of, documents({"OCIv1": {"config": {"Labels": {"x": "y"}}}})),
    "processes, mount tables and control groups of others": Parser(
        lambda text: [read(text) for read in OF_OTHERS],
        written(
            "7 (a) (b) 9) S 1 7 7 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 12 0 30 0",
            "60 42 0:4 net:[4026532177] /run/netns/blue rw shared:2 - nsfs nsfs rw\n",
            "0::/kubepods.slice/kubepods-pod0123456789abcdef0123456789abcdef.slice/cri-containerd-12ab.scope\n",
            "0::/system.slice/docker-0123456789abcdef.scope/kubelet.slice/kubelet-kubepods.slice/x\n",
            "0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod0123456789abcdef0123456789abcdef/x\n",
        ),
    ),
    "openssl x509": Parser(x509.parse, written(inputs.UTILS / "openssl/openssl_3.0.19_x509.txt")),
    "kubeconfig": Parser(node.kubeconfig_in, written(inputs.KUBECONFIG)),
    "containerd's TOML": Parser(node.runtime_in, written(inputs.CONTAINERD)),
    "begun kubeadm": Parser(
        lambda text: (lambda mark: mark and work.runs(mark))(work.mark_in(text)),
        documents({"action": "init", "since": "2026-04-01T12:00:00Z", "pid": 4711, "start": "300", "boot": "b1"}),
    ),
    "start of a process": Parser(work.start_time, written(f"4711 (kube adm) S {'0 ' * 18}300 0")),
    "API server's manifest": Parser(
        node.api_server_in, written("- --advertise-address=192.0.2.10\n- --secure-port=6443\n")
    ),
    "etcd's manifest": Parser(node.etcd_dir_in, written("- --data-dir=/var/lib/etcd\n")),
    "procfs": Parser(
        procfs,
        written(
            inputs.MOUNTS,
            inputs.TCP,
            inputs.LIMITS,
            "MemTotal:       16384 kB\n",
            "Filename Type\n/dev/sda1 partition 1 0 -2\n",
            *inputs.PROC.values(),
        ),
    ),
    "ssh keys": Parser(
        lambda text: ssh_secret.wrong(keys.data(id_ed25519=text.encode("utf-8", "replace").decode())),
        written(keys.WHOLE["id_ed25519"]),
    ),
    "ssh keys in a Secret": Parser(
        lambda text: ssh_secret.wrong({**keys.data(), "id_ed25519": text}), written(*keys.data().values())
    ),
    "drift report": Parser(lambda document: report.validate(document, "x"), values(inputs.REPORT)),
    "drift ConfigMap": Parser(packed, documents(inputs.REPORT)),
    "damaged drift ConfigMap": Parser(damaged, octets(gzip.compress(json.dumps(inputs.REPORT).encode()))),
    "web configuration": Parser(web, written(inputs.WEB), (web_config.WebConfigError,)),
    "listen address": Parser(
        server.parse_address, texts("127.0.0.1:9879", "[::1]:9879", ":9879"), (server.ListenError,)
    ),
}
