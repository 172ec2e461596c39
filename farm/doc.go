// Package farm lets several weirs behind a load balancer act as one. These nodes find each other, tell each other what
// they know, and agree on the time.
//
//	mechanisms, app ──> Farm ──> Bus ──> the other nodes
//
// A Bus carries messages; farm/nats is one, and farmtest has one that runs in simulated time. A Farm knows the nodes,
// seals every message under the farm's secret, notices losses and repairs them with snapshots. It holds no clock: the
// time is passed in, and Advance does what is due.
package farm
