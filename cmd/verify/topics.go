package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The kinds of violation in a history of topics.
const (
	// Unexplained: no order of the operations on a name, each between its call and its answer, gives these answers.
	Unexplained Kind = "unexplained"
	// Undecided: the search for such an order took too long. It is no proof of a fault, and none of its absence.
	Undecided Kind = "undecided"
	// IDTwice: one topic id was given to two topics (I10).
	IDTwice Kind = "id twice"
)

// TopicID names one topic for ever.
type TopicID [16]byte

// Verb is what was asked about a topic's name.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Delete Verb = "delete"
	Find   Verb = "find"
)

// Outcome is what the caller was told.
type Outcome string

// The outcomes.
const (
	// Done: it was created, deleted or found.
	Done Outcome = "done"
	// Refused: Create found the name taken, Delete and Find found no such topic.
	Refused Outcome = "refused"
	// NotDone: the caller was told that nothing happened and nothing will.
	NotDone Outcome = "not done"
	// Unknown: it may have happened, or may yet.
	Unknown Outcome = "unknown"
)

// TopicOp is one operation on a topic's name. Times are of one clock, in nanoseconds.
type TopicOp struct {
	Client  int
	Name    string
	Verb    Verb
	Outcome Outcome
	// ID of the topic that was created or found, if the outcome is Done.
	ID TopicID
	// Call and Return are when it was asked and answered.
	Call, Return int64
}

// String gives the operation as one line.
func (o TopicOp) String() string {
	return fmt.Sprintf("%s %s by %d: %s %.4x [%v, %v]", o.Verb, o.Name, o.Client, o.Outcome, o.ID[:], time.Duration(o.Call), time.Duration(o.Return))
}

// CheckTopics holds a history of operations on names against one register for each name, which holds a topic or none.
// What ends a history belongs into it: a Find of each name after everything is quiet makes an acknowledged Create that
// did not last, or a Create that was answered NotDone and took effect, a history that cannot be explained.
func CheckTopics(ops []TopicOp, within time.Duration) []Violation {
	violations := checkIDs(ops)
	byName := map[string][]porcupine.Operation{}
	for _, op := range ops {
		if op.Outcome != NotDone { // what did not happen explains nothing
			byName[op.Name] = append(byName[op.Name], operation(op))
		}
	}
	model := topicModel.ToModel()
	for name, history := range byName {
		switch porcupine.CheckOperationsTimeout(model, history, within) {
		case porcupine.Ok:
		case porcupine.Unknown:
			violations = append(violations, Violation{Undecided, fmt.Sprintf("topic %s: %d operations", name, len(history))})
		case porcupine.Illegal:
			violations = append(violations, Violation{Unexplained, fmt.Sprintf("topic %s: %s", name, tell(history))})
		}
	}
	slices.SortFunc(violations, func(a, b Violation) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Detail, b.Detail)) })
	return violations
}

// checkIDs looks for an id that two creations were answered with.
func checkIDs(ops []TopicOp) []Violation {
	var violations []Violation
	first := map[TopicID]TopicOp{}
	for _, op := range ops {
		if op.Verb != Create || op.Outcome != Done {
			continue
		}
		if before, twice := first[op.ID]; twice {
			violations = append(violations, Violation{IDTwice, fmt.Sprintf("%v, and %v", before, op)})
			continue
		}
		first[op.ID] = op
	}
	return violations
}

// operation is the checker's form. What may yet happen never returns.
func operation(op TopicOp) porcupine.Operation {
	ends := op.Return
	if op.Outcome == Unknown {
		ends = math.MaxInt64
	}
	return porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: ends}
}

// tellMax bounds the operations that a violation tells.
const tellMax = 12

// tell words the end of a history.
func tell(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	text := fmt.Sprintf("%d operations, the last of them", len(history))
	for _, o := range history[max(0, len(history)-tellMax):] {
		text += fmt.Sprintf("\n    %v", o.Input)
	}
	return text
}

// register is what a name stands for: no topic, or one, whose id is not known if its creation was never answered.
type register struct {
	taken bool
	known bool
	id    TopicID
}

// topicModel is the register of one name.
var topicModel = porcupine.NondeterministicModel{
	Init:  func() []any { return []any{register{}} },
	Step:  func(state, input, _ any) []any { return stepTopic(state.(register), input.(TopicOp)) },
	Equal: func(a, b any) bool { return a == b },
}

// stepTopic gives the registers that may follow; none if the operation cannot have had its outcome here.
func stepTopic(r register, op TopicOp) []any {
	if op.Outcome == Unknown {
		switch {
		case op.Verb == Create && !r.taken:
			return []any{r, register{taken: true}}
		case op.Verb == Delete && r.taken:
			return []any{r, register{}}
		default:
			return []any{r}
		}
	}
	wantTaken := (op.Outcome == Done) == (op.Verb != Create) // only Create is done where the name is free
	if r.taken != wantTaken {
		return nil
	}
	switch {
	case op.Outcome == Refused:
		return []any{r}
	case op.Verb == Create:
		return []any{register{taken: true, known: true, id: op.ID}}
	case op.Verb == Delete:
		return []any{register{}}
	case r.known && r.id != op.ID:
		return nil
	default:
		return []any{register{taken: true, known: true, id: op.ID}}
	}
}
