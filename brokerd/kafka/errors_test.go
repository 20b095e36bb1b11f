package kafka

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// TestEverySentinelHasACode reads the sources of the packages whose errors reach us and wants a line in the table for each
// exported sentinel. The table names values, so the count per package is compared.
func TestEverySentinelHasACode(t *testing.T) {
	inTable := map[string]int{}
	for _, e := range errorCodes {
		inTable[packageOf(e.err)]++
	}
	for pkg, dir := range map[string]string{"replica": "../replica", "partlog": "../partlog", "recordbatch": "../recordbatch", "client": "../../quorum/client"} {
		names := sentinels(t, dir)
		if len(names) == 0 || len(names) != inTable[pkg] {
			t.Errorf("%s has %d sentinels (%s), errors.go maps %d", pkg, len(names), strings.Join(names, ", "), inTable[pkg])
		}
	}
	seen := map[error]bool{}
	for _, e := range errorCodes {
		if seen[e.err] {
			t.Errorf("%q stands twice in the table", e.err)
		}
		seen[e.err] = true
		if code, known := codeOf(fmt.Errorf("append: %w", e.err)); code != e.code.Code || !known {
			t.Errorf("%q wrapped: code %d, want %d", e.err, code, e.code.Code)
		}
	}
}

// packageOf tells which package declares a sentinel of the table.
func packageOf(err error) string {
	for pkg, samples := range sentinelValues {
		for _, s := range samples {
			if s == err { //nolint:errorlint // identity is meant
				return pkg
			}
		}
	}
	return ""
}

// sentinelValues are the sentinels by package. TestEverySentinelHasACode fails when a package has one that is not here.
var sentinelValues = map[string][]error{
	"replica": {
		replica.ErrUnknownPartition, replica.ErrNotLeaderOrFollower, replica.ErrFencedLeaderEpoch, replica.ErrUnknownLeaderEpoch,
		replica.ErrNotEnoughReplicas, replica.ErrNotEnoughReplicasAfterAppend, replica.ErrRequestTimedOut, replica.ErrOffsetOutOfRange,
		replica.ErrOffsetNotAvailable, replica.ErrLeaderEpochNotAbove, replica.ErrStorage, replica.ErrClosed,
	},
	"partlog": {
		partlog.ErrCorruptBatch, partlog.ErrBatchTooLarge, partlog.ErrOutOfOrderSequence, partlog.ErrInvalidProducerEpoch,
		partlog.ErrOffsetOutOfRange, partlog.ErrNonContiguous, partlog.ErrLeaderEpoch, partlog.ErrStorage, partlog.ErrClosed,
		partlog.ErrIdentity, partlog.ErrUnsupportedVersion,
	},
	"client": {client.ErrClosed},
	"recordbatch": {
		recordbatch.ErrCorrupt, recordbatch.ErrInvalidRecord, recordbatch.ErrTooLarge, recordbatch.ErrUnsupportedMagic,
		recordbatch.ErrUnsupportedCodec, recordbatch.ErrInvalidTimestamp, recordbatch.ErrExpansion,
	},
}

// sentinels returns the exported error variables of a package, from its sources.
func sentinels(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.VAR {
				names = append(names, errNames(gen)...)
			}
		}
	}
	return names
}

// errNames returns the names of a declaration that begin with Err.
func errNames(gen *ast.GenDecl) []string {
	var names []string
	for _, spec := range gen.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if strings.HasPrefix(name.Name, "Err") {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// TestEveryControllerCodeIsKafkas: below 1001 the controller's numbers are Kafka's, above each has a line.
func TestEveryControllerCodeIsKafkas(t *testing.T) {
	for number, name := range controllerv1.ErrorCode_name {
		code := controllerCode(controllerv1.ErrorCode(number))
		if number == 0 {
			if code != 0 {
				t.Errorf("%s is code %d", name, code)
			}
			continue
		}
		err := kerr.ErrorForCode(code)
		if number < firstOwnCode {
			if want := strings.TrimPrefix(name, "ERROR_CODE_"); err == nil || !strings.HasPrefix(err.Error(), want+":") {
				t.Errorf("%s is %v", name, err)
			}
			continue
		}
		if _, ok := controllerCodes[controllerv1.ErrorCode(number)]; !ok {
			t.Errorf("%s has no line in controllerCodes", name)
		}
	}
	if got := controllerCode(5000); got != kerr.UnknownServerError.Code {
		t.Errorf("a code of a newer controller is %d", got)
	}
}

func TestUnforeseenErrorsAreUnknownServerError(t *testing.T) {
	if code, known := codeOf(errors.New("surprise")); known || code != kerr.UnknownServerError.Code {
		t.Errorf("code %d, known %t", code, known)
	}
	if code, known := codeOf(nil); !known || code != 0 {
		t.Errorf("nil: code %d, known %t", code, known)
	}
	if code, _ := codeOf(fmt.Errorf("wait: %w", context.DeadlineExceeded)); code != kerr.RequestTimedOut.Code {
		t.Errorf("deadline: code %d", code)
	}
}
