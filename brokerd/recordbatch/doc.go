// Package recordbatch reads Kafka's record batches (v2): it parses and
// validates their headers, walks their records under a cap on what may be
// decompressed, and builds batches for tests and tools.
//
// It trusts no byte of its input: every length is bounded before it is used.
package recordbatch
