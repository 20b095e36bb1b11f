//go:build plantedfault

package replica

const plantedEarlyAck = true
