// Package bench measures a running cluster of real processes from outside, and prints every run.
//
// It is told processes by pid and reads the kernel's own accounting; nothing in it is a pass or a fail.
package bench
