//go:build !unix

package partlog

// processFileLimit is a guess where the system has no such limit to ask for.
func processFileLimit() int { return 4096 }
