package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	only := flag.String("suite", "", "run this suite alone")
	mutant := flag.String("mutant", "", "try only the mutants whose names contain this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runAll(ctx, *only, *mutant)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// suites are all there are.
func suites() []*Suite { return []*Suite{&guard, &realRaft, &node, &simulatedQuick, &simulated} }

func runAll(ctx context.Context, only, mutant string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var failures []error
	found := false
	for _, s := range suites() {
		if only == "" || s.Name == only {
			found = true
			failures = append(failures, s.only(mutant).run(ctx, root, os.Stdout))
		}
	}
	if !found {
		return fmt.Errorf("no suite is called %q", only)
	}
	return errors.Join(failures...)
}

// moduleRoot is the directory of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
