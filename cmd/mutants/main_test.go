package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var all = flag.Bool("mutants.all", false, "try every suite, not only the quickest")

// TestTestsNoticeWhatIsMissing takes the guard's equations out, one at a time. With -mutants.all it takes out the rest.
func TestTestsNoticeWhatIsMissing(t *testing.T) {
	tried := []*Suite{&guard, &simulatedQuick}
	if *all {
		tried = suites()
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range tried {
		t.Run(s.Name, func(t *testing.T) {
			if err := s.run(t.Context(), root, t.Output()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryEditFindsItsPlace: an edit whose place has moved is found without building anything.
func TestEveryEditFindsItsPlace(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range suites() {
		if names[s.Name] {
			t.Errorf("two suites are called %s", s.Name)
		}
		names[s.Name] = true
		if _, err := s.overlay(root, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestAnEditMustBeFoundOnce(t *testing.T) {
	e := Edit{File: "f.go", Old: "a", New: "b"}
	for text, ok := range map[string]bool{"": false, "xax": true, "xaxa": false} {
		got, err := e.apply(text)
		if (err == nil) != ok {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "f.go") {
			t.Errorf("%v does not name the file", err)
		}
	}
}

// TestASurvivorIsReported: a test that passes all the same, that never passes, and that is not there.
func TestASurvivorIsReported(t *testing.T) {
	m := Mutant{Switches: []string{"x"}, Test: "TestX"}
	cases := map[string]struct {
		script string
		want   string // in the error; empty for none
	}{
		"noticed":        {`[ -z "$SKIFF_MUTANT" ] && echo "--- PASS: TestX (0.00s)" || { echo "--- FAIL: TestX (0.00s)"; exit 1; }`, ""},
		"a panic":        {`[ -z "$SKIFF_MUTANT" ] && echo "--- PASS: TestX (0.00s)" || { echo "panic: I7"; exit 2; }`, ""},
		"not noticed":    {`echo "--- PASS: TestX (0.00s)"`, "passes all the same"},
		"never passes":   {`echo "--- FAIL: TestX (0.00s)"; exit 1`, "does not pass without"},
		"no such test":   {`echo "testing: warning: no tests to run"; echo PASS`, "neither passed nor failed"},
		"another's fail": {`[ -z "$SKIFF_MUTANT" ] && echo "--- PASS: TestX (0.00s)" || { echo "--- FAIL: TestXY (0.00s)"; exit 1; }`, "neither passed nor failed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := &binary{path: filepath.Join(t.TempDir(), "test"), dir: t.TempDir(), timeout: testTimeout, sound: map[string]bool{}}
			if err := os.WriteFile(b.path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			err := b.try(t.Context(), &m)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
