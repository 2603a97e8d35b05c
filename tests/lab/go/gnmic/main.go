// Copyright: (c) 2026, rdmaops contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// gNMIc from its own packages, with the commands of which one is a service. Its whole program cannot be built as a module: the
// command `collect` needs a pkg/api that is newer than any which was released by itself, and its go.mod replaces it by a path.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/openconfig/gnmic/pkg/app"
	"github.com/openconfig/gnmic/pkg/cmd/subscribe"
	"github.com/openconfig/gnmic/pkg/cmd/version"
	"github.com/spf13/cobra"
)

func main() {
	gnmic := app.New()
	gnmic.RootCmd = &cobra.Command{Use: "gnmic", PersistentPreRunE: gnmic.PreRunE}
	gnmic.InitGlobalFlags()
	gnmic.RootCmd.AddCommand(subscribe.New(gnmic), version.New(gnmic))
	// As pkg/cmd/root.go has it: a file that cannot be read is told, and the command goes on without it.
	cobra.OnInitialize(func() {
		var missing *fs.PathError
		if err := gnmic.Config.Load(gnmic.Context()); err != nil && !errors.As(err, &missing) {
			fmt.Fprintf(os.Stderr, "failed loading config file: %v\n", err)
		}
	})
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	go func() {
		fmt.Printf("\nreceived signal '%s'. terminating...\n", <-ends)
		gnmic.Cfn()
		os.Exit(0)
	}()
	if gnmic.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
