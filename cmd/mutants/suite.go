package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// switchVariable holds the switches that are set, separated by commas.
const switchVariable = "SKIFF_MUTANT"

// Suite is one test binary with its mutants.
type Suite struct {
	// Name for the command line.
	Name string
	// Package whose tests are to notice, as the go command is told, for example ./quorum/active.
	Package string
	// Edits of the sources, in any package of the module.
	Edits []Edit
	// Mutants that the edits make possible.
	Mutants []Mutant
	// Args for the tests besides, and Timeout of one of them; 0 means testTimeout.
	Args    []string
	Timeout time.Duration
}

// Edit replaces a piece of source.
type Edit struct {
	// File from the module's root, with slashes.
	File string
	// Old must be in the file exactly once.
	Old string
	// New behaves as Old does unless mutated(switch) is true.
	New string
}

// unless leaves a condition out while the mutant lives. It stands in frame at %s.
func unless(file, frame, condition, name string) Edit {
	return Edit{File: file, Old: fmt.Sprintf(frame, condition), New: fmt.Sprintf(frame, fmt.Sprintf("((%s) && !mutated(%q))", condition, name))}
}

// either makes a condition true while the mutant lives. It stands in frame at %s.
func either(file, frame, condition, name string) Edit {
	return Edit{File: file, Old: fmt.Sprintf(frame, condition), New: fmt.Sprintf(frame, fmt.Sprintf("((%s) || mutated(%q))", condition, name))}
}

// Mutant is a line of defence that is missing.
type Mutant struct {
	// Name says what is missing.
	Name string
	// Switches to set.
	Switches []string
	// Test that must fail then: the name of a top-level test of the suite's package.
	Test string
}

// only is the suite with the mutants whose names contain a text.
func (s *Suite) only(text string) *Suite {
	some := *s
	some.Mutants = nil
	for _, m := range s.Mutants {
		if strings.Contains(m.Name, text) {
			some.Mutants = append(some.Mutants, m)
		}
	}
	return &some
}

// build makes the suite's test binary in dir. root is the module's root.
func (s *Suite) build(ctx context.Context, root, dir string) (*binary, error) {
	overlay, err := s.overlay(root, dir)
	if err != nil {
		return nil, err
	}
	b := &binary{
		path: filepath.Join(dir, s.Name+".test"), dir: filepath.Join(root, filepath.FromSlash(s.Package)),
		args: s.Args, timeout: cmp.Or(s.Timeout, testTimeout), sound: map[string]bool{},
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", b.path, s.Package)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the mutants of %s: %w\n%s", s.Name, err, bytes.TrimSpace(out))
	}
	return b, nil
}

// overlay writes the changed files into dir, and the file that tells the go command of them.
func (s *Suite) overlay(root, dir string) (string, error) {
	sources := map[string]string{} // by file from the root
	for _, e := range s.Edits {
		text, ok := sources[e.File]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return "", fmt.Errorf("suite %s: %w", s.Name, err)
			}
			text = string(read)
		}
		changed, err := e.apply(text)
		if err != nil {
			return "", fmt.Errorf("suite %s: %w", s.Name, err)
		}
		sources[e.File] = changed
		sources[path.Join(path.Dir(e.File), "mutated_overlay.go")] = switchSource(changed)
	}
	replace := map[string]string{}
	for file, text := range sources {
		to := filepath.Join(dir, s.Name+"-"+strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, s.Name+"-overlay.json")
	return to, os.WriteFile(to, list, 0o600)
}

// apply makes the edit.
func (e *Edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.Old); n != 1 {
		return "", fmt.Errorf("%s has %d times, and should have once: %s", e.File, n, e.Old)
	}
	return strings.Replace(text, e.Old, e.New, 1), nil
}

// switchSource is the file beside a changed one that gives its package the function mutated.
func switchSource(neighbour string) string {
	name := "main"
	for line := range strings.Lines(neighbour) {
		if rest, ok := strings.CutPrefix(line, "package "); ok {
			name = strings.TrimSpace(rest)
			break
		}
	}
	return "package " + name + `

import (
	"os"
	"slices"
	"strings"
)

var mutations = strings.Split(os.Getenv("` + switchVariable + `"), ",")

func mutated(name string) bool { return slices.Contains(mutations, name) }
`
}
