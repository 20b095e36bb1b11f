// Package kafka serves Kafka's protocol: it decodes what clients and other brokers ask, has it done, and answers.
//
// It decides nothing. Topics and leaders are what the metadata image says, read once per request; records go to and come from
// brokerd/replica; changes of metadata go to the active controller, and the answer waits until this broker's own image shows
// them. What the server needs of others is declared in this package as small interfaces ([Config]).
//
// # Goroutines
//
//	Serve          one per listener, the caller's: accepts
//	run            one per connection: reads a request, handles it, writes the answer, reads the next (I18)
//	watch          one while a request is parked: notices that the peer went away, so that the wait ends
//	auto-create    one per topic name being created on behalf of a client, bounded in number
//
// # How an API is added
//
// Each API has one file, named after its key, with a comment that says which versions are served, how, and what is left out.
// Its api variable is listed in allAPIs, from which ApiVersions is generated. Behaviour that differs from Kafka's is listed in
// docs/divergence.md.
//
// # Hostile peers
//
// Every length is judged before it is believed: the size of a frame before any of it is read, key and version before the
// body, and nothing is allocated for bytes that have not arrived. Limits lists all bounds. Whatever a peer sends costs at most
// its own connection, and one line in the log a second.
package kafka
