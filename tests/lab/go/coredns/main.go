// Copyright: (c) 2026, rdmaops contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// CoreDNS with the two plugins that a laboratory's cluster needs: the whole one takes many times as long to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
	coremain.Run()
}
