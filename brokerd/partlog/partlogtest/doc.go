// Package partlogtest has a file system in memory that can be killed or lose
// power at any operation, for tests of what is said to survive that.
package partlogtest
