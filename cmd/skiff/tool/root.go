// Package tool is the command line of skiff: one file a noun, each with its verbs.
//
// Results go to stdout in the format of -o, errors to stderr as one line of cause and one line of fix. What a command may return is
// an error of package config, which carries the exit code.
package tool

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
)

// Main runs the tool and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	root := Command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return config.Report(stderr, "skiff", root.ExecuteContext(context.Background()))
}

// Command returns the whole tree of commands.
func Command() *cobra.Command {
	root := group("skiff", "A Kafka-compatible cluster with its own Raft quorum")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &config.ExitError{Code: config.ExitUsage, Cause: err.Error(), Fix: cmd.CommandPath() + " --help", Err: err}
	})
	root.AddCommand(upCommand(), nodeCommand(), quorumCommand(), brokerCommand(), topicCommand(), reassignCommand(), electCommand(), featureCommand(), snapshotCommand(), logCommand(), historyCommand(), explainCommand(), benchCommand(), configCommand(), versionCommand())
	root.AddCommand(daemons()...)
	return root
}

// group is a command that only has commands below it. Unlike cobra's, it refuses a word that is none of them.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return config.Usage(cmd.CommandPath()+" --help", "unknown command %q for %q", args[0], cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// none wants no arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return config.Usage(cmd.CommandPath()+" --help", "%s takes no arguments, got %q", cmd.CommandPath(), args)
}

// one wants one argument.
func one(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return config.Usage(cmd.CommandPath()+" --help", "%s takes one argument, got %d", cmd.CommandPath(), len(args))
}

// some wants one argument or more.
func some(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return config.Usage(cmd.CommandPath()+" --help", "%s takes at least one argument", cmd.CommandPath())
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM, and one that ends at the second.
func untilSignal(parent context.Context) (first, second context.Context, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	first, endFirst := context.WithCancel(parent)
	second, endSecond := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for _, end := range []context.CancelFunc{endFirst, endSecond} {
			select {
			case <-signals:
				end()
			case <-done:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(signals)
		close(done)
		endFirst()
		endSecond()
	}
}
