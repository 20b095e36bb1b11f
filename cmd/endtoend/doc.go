// Package endtoend holds no code but tests: what the README promises, shown on real processes with real Kafka clients.
package endtoend
