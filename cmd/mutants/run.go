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

// testTimeout bounds one test of a suite that says nothing else.
const testTimeout = 2 * time.Minute

// binary is a suite's test binary.
type binary struct {
	path string
	dir  string // where its tests expect to run
	args []string
	// timeout of one test: a mutant may well make it wait for ever.
	timeout time.Duration
	// sound holds the tests that passed without a mutant.
	sound map[string]bool
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
	if err := b.prove(ctx, m.Test); err != nil {
		return err
	}
	passed, said, err := b.test(ctx, m.Test, m.Switches)
	if err != nil {
		return err
	}
	if passed {
		return fmt.Errorf("%s passes all the same:\n%s", m.Test, said)
	}
	return nil
}

// prove runs a test without a mutant, once.
func (b *binary) prove(ctx context.Context, name string) error {
	if b.sound[name] {
		return nil
	}
	passed, said, err := b.test(ctx, name, nil)
	if err != nil {
		return err
	}
	if !passed {
		return fmt.Errorf("%s does not pass without the mutant either:\n%s", name, said)
	}
	b.sound[name] = true
	return nil
}

// test runs one test with switches set, and tells whether it passed. A run that says neither is an error.
func (b *binary) test(ctx context.Context, name string, switches []string) (passed bool, said string, err error) {
	args := append([]string{"-test.run", "^" + name + "$", "-test.v", "-test.timeout", b.timeout.String()}, b.args...)
	cmd := exec.CommandContext(ctx, b.path, args...)
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
