// Package torture runs a cluster of real processes under a seeded schedule of faults, and judges whether it kept its word.
//
// While producers with idempotence and acks=all send numbered records and consumers read along, one step of the schedule after
// the other kills, pauses and stops quorum nodes and brokers, kills them at their n-th write, fsync or rename, fills their disks,
// cuts them off from all others or from one, both ways or one way, and leaves a leader alone before it dies. Never more than one
// quorum node of three and one replica of three is taken at once, but for the last of these, which takes the followers only for
// moments: so progress is owed, and a step that is not followed by it is a violation too. Clients create and delete topics on a few
// names meanwhile, and all nodes are asked again and again what they hold. At the end everything is read back from offset 0 and
// handed to the checks of package verify.
//
// A seed repeats the schedule and the workload, not the run: real processes take turns as they like.
package torture
