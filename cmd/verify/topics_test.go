package verify

import (
	"slices"
	"testing"
	"time"
)

// history builds operations that follow one another, each one step long.
type history struct {
	ops []TopicOp
	now int64
}

func (h *history) add(verb Verb, outcome Outcome, id byte) *history {
	h.ops = append(h.ops, TopicOp{Name: "a", Verb: verb, Outcome: outcome, ID: TopicID{id}, Call: h.now, Return: h.now + 1})
	h.now += 2
	return h
}

// beside is add for an operation that is under way while the one before it is.
func (h *history) beside(verb Verb, outcome Outcome, id byte) *history {
	h.now -= 2
	return h.add(verb, outcome, id)
}

func TestCheckTopicsAcceptsWhatCanBeExplained(t *testing.T) {
	for name, h := range map[string]*history{
		"a life":                      new(history).add(Create, Done, 1).add(Create, Refused, 0).add(Delete, Done, 0).add(Delete, Refused, 0).add(Find, Refused, 0),
		"created again":               new(history).add(Create, Done, 1).add(Delete, Done, 0).add(Create, Done, 2).add(Find, Done, 2),
		"beside one another":          new(history).add(Create, Refused, 0).beside(Create, Done, 1).add(Find, Done, 1),
		"an unknown create happened":  new(history).add(Create, Unknown, 0).add(Create, Refused, 0).add(Find, Done, 7),
		"an unknown create did not":   new(history).add(Create, Unknown, 0).add(Create, Done, 1).add(Find, Done, 1),
		"an unknown create was late":  new(history).add(Create, Unknown, 0).add(Create, Done, 1).add(Delete, Done, 0).add(Find, Done, 2),
		"an unknown delete happened":  new(history).add(Create, Done, 1).add(Delete, Unknown, 0).add(Find, Refused, 0),
		"what is not done is nothing": new(history).add(Create, NotDone, 0).add(Find, Refused, 0),
	} {
		t.Run(name, func(t *testing.T) {
			if v := CheckTopics(h.ops, time.Minute); len(v) != 0 {
				t.Fatal(v)
			}
		})
	}
}

func TestCheckTopicsFindsEachDoctoredHistory(t *testing.T) {
	for name, c := range map[string]struct {
		h    *history
		want []Kind
	}{
		"an acknowledged create is gone":     {new(history).add(Create, Done, 1).add(Find, Refused, 0), []Kind{Unexplained}},
		"another topic has its name":         {new(history).add(Create, Done, 1).add(Find, Done, 2), []Kind{Unexplained}},
		"an acknowledged delete came back":   {new(history).add(Create, Done, 1).add(Delete, Done, 0).add(Find, Done, 1), []Kind{Unexplained}},
		"created twice":                      {new(history).add(Create, Done, 1).add(Create, Done, 2), []Kind{Unexplained}},
		"refused while the name was free":    {new(history).add(Create, Refused, 0), []Kind{Unexplained}},
		"what was not done appears":          {new(history).add(Create, NotDone, 0).add(Find, Done, 1), []Kind{Unexplained}},
		"what was not done comes in between": {new(history).add(Create, NotDone, 0).add(Create, Refused, 0), []Kind{Unexplained}},
		"an id given twice":                  {new(history).add(Create, Done, 1).add(Delete, Done, 0).add(Create, Done, 1).add(Find, Done, 1), []Kind{IDTwice}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kinds(CheckTopics(c.h.ops, time.Minute)); !slices.Equal(got, c.want) {
				t.Fatalf("violations %v, want %v", got, c.want)
			}
		})
	}
}
