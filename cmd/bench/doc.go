// Package bench measures a cluster of `skiff up` from outside, by disturbing its processes and by the kernel's own accounting.
//
// A process is signalled only after it said of itself that it is the one meant. Every run is printed; nothing here is a pass or a fail.
package bench
