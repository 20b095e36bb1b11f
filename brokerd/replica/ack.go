//go:build !plantedfault

package replica

// plantedEarlyAck is a fault that is built in to see whether verification finds it: an append with acks=all is answered
// before anybody else has it. Only builds with the tag plantedfault have it.
const plantedEarlyAck = false
