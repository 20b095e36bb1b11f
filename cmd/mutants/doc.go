// Command mutants takes one line of defence after another out of the sources and tells whether the test that is to notice
// does. A test that nobody ever saw fail proves little; here it is seen, again and again, and without a change of the tree.
//
// A suite is one test binary. Its edits replace exact pieces of source, through `go test -overlay`, by pieces that behave
// the same until a switch is set: `mutated("name")` tells whether it is. A piece that is not found, or found twice, is an
// error: the source has moved on, and the edit must follow. So that one build serves all mutants of a suite, the switches
// are set from outside. Each mutant names one test; it must pass without any switch, and fail with the mutant's.
//
//	go run ./cmd/mutants            all suites
//	go run ./cmd/mutants -suite guard
package main
