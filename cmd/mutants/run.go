package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// testTimeout bounds one test: a mutant may well make it wait for ever.
const testTimeout = 2 * time.Minute

// binary is a suite's test binary.
type binary struct {
	path string
	dir  string // where its tests expect to run
}

// run builds the suite and tries each of its mutants, telling out of each. The error names those that nobody noticed.
func (s *Suite) run(ctx context.Context, root string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := s.build(ctx, root, dir)
	if err != nil {
		return err
	}
	var failures []error
	for _, m := range s.Mutants {
		began := time.Now()
		err := b.try(ctx, &m)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s, %s: %w", s.Name, m.Name, err))
		}
		verdict := "noticed by"
		if err != nil {
			verdict = "NOT noticed by"
		}
		if _, err := fmt.Fprintf(out, "%s: %s: %s %s (%s)\n", s.Name, m.Name, verdict, m.Test, time.Since(began).Round(10*time.Millisecond)); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}

// try runs the mutant's test without it and with it.
func (b *binary) try(ctx context.Context, m *Mutant) error {
	passed, said, err := b.test(ctx, m.Test, nil)
	if err != nil {
		return err
	}
	if !passed {
		return fmt.Errorf("%s does not pass without the mutant either:\n%s", m.Test, said)
	}
	passed, said, err = b.test(ctx, m.Test, m.Switches)
	if err != nil {
		return err
	}
	if passed {
		return fmt.Errorf("%s passes all the same:\n%s", m.Test, said)
	}
	return nil
}

// test runs one test with switches set, and tells whether it passed. A run that says neither is an error.
func (b *binary) test(ctx context.Context, name string, switches []string) (passed bool, said string, err error) {
	cmd := exec.CommandContext(ctx, b.path, "-test.run", "^"+name+"$", "-test.v", "-test.timeout", testTimeout.String())
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), switchVariable+"="+strings.Join(switches, ","))
	out, err := cmd.CombinedOutput()
	said = string(bytes.TrimSpace(out))
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(said, "--- PASS: "+name+" "):
		return true, said, nil
	case errors.As(err, &exit) && (strings.Contains(said, "--- FAIL: "+name+" ") || strings.Contains(said, "panic: ")):
		return false, said, nil
	}
	return false, said, fmt.Errorf("%s neither passed nor failed (%w):\n%s", name, err, said)
}
