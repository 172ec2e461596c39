// Package nats is the farm's bus over NATS: a server inside every node, or one that the operator runs.
//
//	Send, Ask ──> outbox ──> client ──> the server in this process ══ routes, TLS ══ the servers in the other nodes
//	                            └─────> or a NATS server elsewhere
//
// The server in the process is NATS core without JetStream. It has no listener for clients: the bus is its only one and
// reaches it through a pipe. Its routes are TLS 1.3 with certificates on both ends, made from the farm's secret unless
// the operator names files. Names of peers are resolved here and not by NATS, which would take one address at random.
package nats
