// Copyright: (c) 2026, rdmaops contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// CoreDNS with the plugins of the Corefile that kubeadm writes (cmd/kubeadm/app/phases/addons/dns/manifests.go).
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// In the order of coredns' plugin.cfg, which is that in which they are asked.
	dnsserver.Directives = []string{
		"reload", "ready", "health", "prometheus", "errors", "loadbalance", "cache", "kubernetes", "loop", "forward",
	}
	coremain.Run()
}
