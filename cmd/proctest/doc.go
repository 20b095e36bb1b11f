// Package proctest runs a cluster of real processes for Go tests: real binaries, real sockets, real disks.
//
// A package that uses it calls [Main] from its TestMain. The binary is built once for a test run and every cluster is `skiff up` on
// free ports. What a test starts is ended by its pid when the test is over, and on Linux also when the test process dies. The
// directory of a failed test is kept and named; SKIFF_KEEP=1 keeps them all. SKIFF_BIN names a binary to use instead of building one.
package proctest
