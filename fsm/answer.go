package fsm

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/benbjohnson/immutable"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

const (
	// maxAnswers is how many answers an image keeps: a retry comes within seconds (I20).
	maxAnswers = 512
	// MaxAnswerBytes bounds an answer; larger ones are not kept, and a retry of such a request is decided again.
	MaxAnswerBytes = 8 << 10
)

// Answer is what a request was answered that changed something. It is immutable once an image holds it.
type Answer struct {
	// RequestID and Kind of the request.
	RequestID UUID
	Kind      string
	// Offset is the metadata offset at which the answer is true.
	Offset int64
	// Body is the encoded response.
	Body []byte
}

// Answer returns what a request was answered, if it is one of the last that changed something.
func (img *Image) Answer(requestID UUID, kind string) (*Answer, bool) {
	for it := img.answers.Iterator(); !it.Done(); {
		if _, a, _ := it.Next(); a.RequestID == requestID && a.Kind == kind {
			return a, true
		}
	}
	return nil, false
}

// Answers yields the answers that are kept, from the oldest on.
func (img *Image) Answers() iter.Seq[*Answer] { return sortedValues(img.answers) }

// Record returns the answer as the record that states it in a snapshot.
func (a *Answer) Record() *metadatav1.RequestAnswered {
	return &metadatav1.RequestAnswered{RequestId: a.RequestID.Bytes(), RequestKind: a.Kind, Answer: a.Body, MetadataOffset: a.Offset}
}

func answerFromRecord(r *metadatav1.RequestAnswered, offset int64) (*Answer, error) {
	id, err := requireUUID("request id", r.GetRequestId())
	if err != nil {
		return nil, err
	}
	if r.GetRequestKind() == "" || len(r.GetRequestKind()) > maxStringBytes || len(r.GetAnswer()) > MaxAnswerBytes {
		return nil, fmt.Errorf("a kind of %d bytes and an answer of %d, at most %d", len(r.GetRequestKind()), len(r.GetAnswer()), MaxAnswerBytes)
	}
	return &Answer{RequestID: id, Kind: r.GetRequestKind(), Offset: offset, Body: slices.Clone(r.GetAnswer())}, nil
}

func (a *Answer) sum() sum {
	var room canonicalRoom
	c := newCanonical(room[:], answerObject)
	c = c.uuid(a.RequestID)
	c = c.string(a.Kind)
	c = c.int64(a.Offset)
	c = c.string(string(a.Body))
	return c.sum()
}

func (a *Answer) equal(b *Answer) bool {
	return a.RequestID == b.RequestID && a.Kind == b.Kind && a.Offset == b.Offset && bytes.Equal(a.Body, b.Body)
}

// requestAnswered keeps an answer, and lets the oldest one go when there are too many.
func (f *fold) requestAnswered(r *metadatav1.RequestAnswered) error {
	if r.GetMetadataOffset() != 0 {
		return violation(0, "answer", "metadata offset %d is stated in an entry", r.GetMetadataOffset())
	}
	a, err := answerFromRecord(r, f.img.nextOffset)
	if err != nil {
		return violation(0, "answer", "%v", err)
	}
	if _, twice := f.img.Answer(a.RequestID, a.Kind); twice {
		return violation(0, "answer", "request %s was answered already", a.RequestID)
	}
	f.add(a.sum())
	f.img.answers = f.img.answers.Set(a.Offset, a)
	f.answered = true
	if f.img.answers.Len() <= maxAnswers {
		return nil
	}
	offset, oldest, _ := f.img.answers.Iterator().Next()
	f.remove(oldest.sum())
	f.img.answers = f.img.answers.Delete(offset)
	return nil
}

func checkAnswers(img *Image) *Violation {
	if img.answers.Len() > maxAnswers {
		return violation(20, "answers", "%d of them, at most %d", img.answers.Len(), maxAnswers)
	}
	for it := img.answers.Iterator(); !it.Done(); {
		offset, a, _ := it.Next()
		read, err := answerFromRecord(a.Record(), a.Offset)
		if err != nil || a.Offset != offset || offset < 0 || offset >= img.nextOffset || !read.equal(a) {
			return violation(0, "answer", "at %d, stated at %d: %v", offset, a.Offset, err)
		}
	}
	return nil
}

func newAnswers() *immutable.SortedMap[int64, *Answer] {
	return immutable.NewSortedMap[int64, *Answer](nil)
}

func sameAnswers(old, now *Image) bool {
	_, same := sameMaps(old.answers, now.answers, func(a, b *Answer) bool { return a == b || a.equal(b) })
	return same
}
