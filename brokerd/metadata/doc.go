// Package metadata keeps a broker's copy of the metadata: it follows the quorum, writes what it hears to a log of
// its own before anybody acts on it, and tells the subscribers.
//
// It is not told where the quorum is: whoever assembles the broker calls Snapshot, Entry and Beat with what comes.
// These three and the subscribers run on one goroutine, that of Run's source. Image, Applied, Await and Status may
// be called from any goroutine.
//
// A process starts from its own log, and so has metadata before it has heard anybody. What is in that log was
// committed once, but may be old; see Confirmed.
//
// Three rules keep a broker from going back:
//
//   - (lineage number, metadata offset) only grows (I6). A source that is behind is refused.
//   - A new lineage is followed only if ours is among its ancestors; another one is ErrForeignLineage, which ends
//     the process: only an operator can say which is right.
//   - An entry that passes the checks and does not fold freezes the image (I3): the broker keeps its last good one
//     and goes on serving. An entry whose digest does not fit raises an alarm, and nothing is deleted from then on
//     (I22).
//
// The files are described in docs/formats/broker-metadata-log.md.
package metadata
