// Package up runs a cluster of real processes on this machine: `skiff up`.
//
// DATA is the directory of one cluster:
//
//	up.json      which nodes there are and which ports they have
//	up.lock      held by the one `skiff up` that runs the cluster
//	up.sock      where the node verbs are asked for (see [Client])
//	NAME/        data of node NAME
//	conf/        one configuration file a node, written anew at each start
//	logs/        what the processes write, one file a node
//
// Each node is a child process: this binary again, as `skiff quorumd` or `skiff brokerd`. One goroutine owns one child (see node);
// nobody else signals it. Children lead process groups of their own, so that Ctrl-C reaches only `up`, which stops brokers first and
// then the quorum. On Linux the kernel kills them when `up` itself is killed.
//
// A child that exits with code 70 is started again after a pause that grows; one that exits with 78, or in any other way that was
// not asked for, is reported and stays down until `skiff node restart`.
package up
