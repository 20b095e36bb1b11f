package fsm

import "fmt"

// Violation says which invariant does not hold, of which object, and how.
type Violation struct {
	// Invariant is the number in ARCHITECTURE.md, 0 when the fault is none of the numbered ones (a record that
	// is malformed or names something unknown).
	Invariant int
	// Object that is at fault, for example "partition foo-0".
	Object string
	// Detail with both values.
	Detail string
}

// Error returns for example "I8: partition foo-0: leader 3 is not in ISR [1 2]".
func (v *Violation) Error() string {
	if v.Invariant == 0 {
		return fmt.Sprintf("%s: %s", v.Object, v.Detail)
	}
	return fmt.Sprintf("I%d: %s: %s", v.Invariant, v.Object, v.Detail)
}

func violation(invariant int, object, format string, args ...any) *Violation {
	return &Violation{Invariant: invariant, Object: object, Detail: fmt.Sprintf(format, args...)}
}
