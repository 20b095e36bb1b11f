// Package stray keeps the replicas that the metadata no longer gives to a broker: their topic was deleted, they were
// moved away, or a restored metadata log has never heard of them. They are put aside with what is known of their topic,
// taken back when the metadata asks for them again, and purged when they are old or space is low.
//
// It is not told why a replica goes, nor whether the metadata may be believed: its callers are. Every step is one
// rename or one file that is replaced as a whole, so that a crash between any two leaves a replica in its place or put
// away, whole in either case; docs/formats/stray.md has the names and the file.
//
// The methods of a Store may be called from any goroutine. Two that want the same replica race for one rename, and
// whoever loses finds it gone. The same holds between processes: the tool may purge beside a running broker.
//
// Invariant I22: nothing is deleted on the strength of metadata that failed validation or is not confirmed.
package stray
