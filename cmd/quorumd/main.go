// Command quorumd runs one quorum node.
package main

import (
	"os"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/quorumcmd"
)

func main() {
	os.Exit(config.Report(os.Stderr, "quorumd", quorumcmd.Command().Execute()))
}
