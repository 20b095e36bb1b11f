// Package admin is the HTTP server that every process has from its start: is it alive, is it ready, what does it know.
//
//	/livez    200 as long as the process works, also while it replays its log
//	/readyz   200 when it serves, 503 with the reason on one line otherwise; ?verbose lists every check
//	/healthz  the same as /readyz, under the name that other tools ask for
//	/status   JSON, see [Status]
//	/metrics  Prometheus
//
// The server knows no authentication, so its default address is a loopback one. It asks the process by the functions of [Admin],
// from any number of goroutines at a time; they must not wait.
package admin
