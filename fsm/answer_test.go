package fsm

import "testing"

// TestTheLastAnswersAreKept: the oldest goes when there are too many (I20), and a request is answered once.
func TestTheLastAnswersAreKept(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	for n := range maxAnswers + 3 {
		w.fold(answeredRecord(n + 1))
	}
	kept := 0
	for a := range w.img.Answers() {
		kept++
		if a.Offset < 2+3 {
			t.Errorf("the answer at %d is kept", a.Offset)
		}
	}
	const kind = "controller.v1.CreateTopicsRequest"
	if _, ok := w.img.Answer(uuid(3), kind); ok || kept != maxAnswers {
		t.Errorf("%d answers, of the third request %t", kept, ok)
	}
	if a, ok := w.img.Answer(uuid(4), kind); !ok || a.Offset != 5 {
		t.Errorf("the fourth: %v", a)
	}
	if _, ok := w.img.Answer(uuid(4), "controller.v1.DeleteTopicsRequest"); ok {
		t.Error("another kind of request has the answer")
	}
	if err := Check(w.img); err != nil {
		t.Error(err)
	}
	if again := throughSnapshot(t, w.img); again.Digest() != w.img.Digest() {
		t.Error("a snapshot loses answers")
	}
}
