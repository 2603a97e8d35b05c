// Copyright: (c) 2026, rdmaops contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Starts k8s-rdma-shared-dp, unchanged, where it sees Soft-RoCE. It looks for RDMA devices under the PCI devices of network
// cards, and a device of Soft-RoCE has no parent there. In the /sys of this container, the card has it as a real one would.
package main

import (
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const program = "/k8s-rdma-shared-dp"

// What the plugin (pkg/resources/pci_net_device.go) and its library ghw read of a PCI device.
var attributes = []string{"class", "device", "modalias", "revision", "subsystem_device", "subsystem_vendor", "vendor"}

func must(err error) {
	if err != nil {
		log.Fatalf("showing a Soft-RoCE device under its card: %v", err)
	}
}

// show gives a card an RDMA device. A virtio card has its network device one level deeper than the plugin looks for it.
func show(card, rdma, netdev string) {
	place := filepath.Join("/run/cards", filepath.Base(card))
	must(os.MkdirAll(filepath.Join(place, "infiniband", rdma), 0o755))
	must(os.MkdirAll(filepath.Join(place, "net", netdev), 0o755))
	for _, name := range attributes {
		content, err := os.ReadFile(filepath.Join(card, name))
		must(err)
		must(os.WriteFile(filepath.Join(place, name), content, 0o644))
	}
	driver, err := filepath.EvalSymlinks(filepath.Join(card, "driver"))
	must(err)
	must(os.Symlink(driver, filepath.Join(place, "driver")))
	must(syscall.Mount(place, card, "", syscall.MS_BIND, ""))
}

func main() {
	devices, err := filepath.Glob("/sys/class/infiniband/*")
	must(err)
	for _, device := range devices {
		netdev, err := os.ReadFile(filepath.Join(device, "parent"))
		must(err)
		name := strings.TrimSpace(string(netdev))
		// CARD/virtioN/net/NAME
		path, err := filepath.EvalSymlinks(filepath.Join("/sys/class/net", name))
		must(err)
		show(filepath.Join(path, "../../.."), filepath.Base(device), name)
	}
	must(syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ()))
}
