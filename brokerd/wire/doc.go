// Package wire is the framing of Kafka's protocol: length frames, request and response headers, and the client side of a
// connection.
//
// It knows no API. The bodies are kmsg's; which keys and versions are served, and what they mean, is the business of
// brokerd/kafka. The fetcher of brokerd/replica speaks to other brokers through [Conn].
//
//	frame     = size int32 | size bytes
//	request   = api key int16 | version int16 | correlation id int32 | client id nullable string | [tags] | body
//	response  = correlation id int32 | [tags] | body
//
// The client id is never compact. The tags are there when the body's version is flexible (KIP-482), except in the response
// to ApiVersions, which a client must be able to read before it knows the broker's versions (KIP-511).
//
// Nothing in this package trusts a length: a frame's size is judged before a byte of it is read, and memory grows with the
// bytes that have arrived, not with the bytes that were promised (I20).
package wire
