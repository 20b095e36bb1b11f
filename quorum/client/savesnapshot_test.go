package client

import (
	"bytes"
	"errors"
	"io"
	"testing"

	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

func dataPart(b string) *quorumv1.SaveSnapshotResponse {
	return &quorumv1.SaveSnapshotResponse{Kind: &quorumv1.SaveSnapshotResponse_Data{Data: []byte(b)}}
}

func endPart(size int64) *quorumv1.SaveSnapshotResponse {
	return &quorumv1.SaveSnapshotResponse{Kind: &quorumv1.SaveSnapshotResponse_End{End: &quorumv1.SaveSnapshotEnd{SizeBytes: size}}}
}

// stream gives the parts and then an error.
func stream(last error, parts ...*quorumv1.SaveSnapshotResponse) func() (*quorumv1.SaveSnapshotResponse, error) {
	return func() (*quorumv1.SaveSnapshotResponse, error) {
		if len(parts) == 0 {
			return nil, last
		}
		part := parts[0]
		parts = parts[1:]
		return part, nil
	}
}

func TestSavedSnapshotIsWholeOrAnError(t *testing.T) {
	var w bytes.Buffer
	if err := receivePieces("a:1", stream(io.EOF, dataPart("abc"), dataPart("de"), endPart(5)), &w); err != nil || w.String() != "abcde" {
		t.Errorf("a whole stream: %q, %v", w.String(), err)
	}
	lost := errors.New("connection lost")
	for what, next := range map[string]func() (*quorumv1.SaveSnapshotResponse, error){
		"cut at once":              stream(lost),
		"cut between pieces":       stream(lost, dataPart("abc")),
		"ended between pieces":     stream(io.EOF, dataPart("abc")),
		"a piece is missing":       stream(io.EOF, dataPart("abc"), endPart(5)),
		"a piece too many":         stream(io.EOF, dataPart("abc"), dataPart("de"), endPart(3)),
		"a piece without data":     stream(io.EOF, dataPart(""), endPart(0)),
		"a part of no kind":        stream(io.EOF, &quorumv1.SaveSnapshotResponse{}),
		"begun twice":              stream(io.EOF, &quorumv1.SaveSnapshotResponse{Kind: &quorumv1.SaveSnapshotResponse_Begin{Begin: &SavedSnapshot{}}}),
		"what is written is full":  nil,
		"ended before any of them": stream(io.EOF),
	} {
		into := io.Discard
		if next == nil {
			next, into = stream(io.EOF, dataPart("abc"), endPart(3)), full{}
		}
		if err := receivePieces("a:1", next, into); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }
