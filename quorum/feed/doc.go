// Package feed keeps the newest entries that took effect, for those who follow the metadata.
//
// The goroutine that folds publishes each entry together with the image after it, and never waits for a reader: what
// falls out of the ring is gone, and a reader that still needed it takes a snapshot instead. Readers hold a [Cursor]
// each. The feed holds no reader and no copy for a reader, so a slow one costs nothing but the entries it keeps alive
// while it sends them.
//
// A [Snapshot] is an image in its encoded form, shared by everybody who needs one while it exists. The entries that
// follow it stay in the ring until the last of them has sent it, within a bound; otherwise a follower that is slower
// than the ring would take snapshots for ever.
package feed
