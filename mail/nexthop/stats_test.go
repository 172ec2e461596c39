package nexthop

import "time"

// Stats are figures of a client.
type Stats struct {
	Connections int    // open now
	Idle        int    // of them, waiting for the next mail
	Waiting     int    // deliveries that wait for a connection
	LogIns      int    // log-ins under way or waiting
	Dials       uint64 // connections that were begun
	Reused      uint64 // transactions over a connection that had had one
	Mails       uint64 // transactions that came to an end, good or bad
	Lost        uint64 // connections that could not be made, or ended before the final dot
	Ambiguous   uint64 // transactions without an answer after it
	Restarts    uint64 // idle connections that turned out to be dead
	Servers     []ServerStats
}

// ServerStats tell how a server is.
type ServerStats struct {
	Server string
	Up     bool
	Retry  time.Time // when it is tried again, where it is not up
	Reason string    // why it is not
}

// Stats returns how the client is.
func (c *Client) Stats() Stats {
	s := Stats{
		Waiting: int(c.waiting.Load()), LogIns: c.logIns.Inside(), Dials: c.dials.Load(), Reused: c.reused.Load(),
		Mails: c.mails.Load(),
		Lost:  c.lost.Load(), Ambiguous: c.ambiguous.Load(), Restarts: c.restarts.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Connections = c.open
	for _, server := range c.servers {
		s.Idle += len(server.idle)
		s.Servers = append(s.Servers, ServerStats{server.address, !server.paused, server.until, server.reason.Text})
	}
	return s
}
