// Command brokerd runs one broker.
package main

import (
	"os"

	"github.com/skiffmq/skiff/cmd/brokercmd"
	"github.com/skiffmq/skiff/cmd/config"
)

func main() {
	os.Exit(config.Report(os.Stderr, "brokerd", brokercmd.Command().Execute()))
}
