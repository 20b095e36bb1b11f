// Command skiff is the operator's tool. It contains the daemons too, so that this one binary is a whole cluster.
package main

import (
	"os"

	"github.com/skiffmq/skiff/cmd/skiff/tool"
)

func main() {
	os.Exit(tool.Main(os.Args[1:], os.Stdout, os.Stderr))
}
