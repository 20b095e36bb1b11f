// Package kafka reaches behind the wire.
package kafka

import (
	"errors"
	"io"

	"github.com/hashicorp/raft" // want depguard depguard

	"github.com/skiffmq/skiff/quorum/controller" // want depguard
)

// Serve compares errors by identity.
func Serve(err error) int {
	if err == io.EOF { // want errorlint
		return raft.Term
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0
	}
	return controller.Decide()
}

func Bare() {} // want revive

// Excused is excused without a reason.
func Excused(err error) bool {
	return err == io.EOF //nolint // want nolintlint
}
