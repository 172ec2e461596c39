package httpgate

import (
	behind "weir/upstream"
)

// ServerStats is the state of a server behind a gate.
type ServerStats struct {
	behind.Stats
	// Routes are those whose requests it gets, RouteDefault for the upstream of the gate; nil for a gate without
	// routes. A server that stands in several pools is listed for each of them.
	Routes []string
}

// Servers are the servers behind the gate and its routes, as they are now.
func (g *Gate) Servers() (all []ServerStats) {
	s := g.Setup.Load()
	for _, p := range s.pools {
		routes := s.routesTo(p.Pool)
		for _, one := range p.Stats() {
			all = append(all, ServerStats{Stats: one, Routes: routes})
		}
	}
	return all
}

// routesTo are the names of the routes that lead to a pool.
func (s *setup) routesTo(p *behind.Pool) (names []string) {
	if s.router == nil {
		return nil
	}
	for _, to := range s.router.routes {
		if to.servers == p {
			names = append(names, to.route.name)
		}
	}
	if rest := s.router.rest; rest.servers == p {
		names = append(names, rest.route.name)
	}
	return names
}

// KeptBodies is how many bytes of requests' bodies are kept, so that they can be sent to another server.
func (g *Gate) KeptBodies() (n int64) {
	for _, p := range g.Setup.Load().pools {
		n += p.Kept()
	}
	return n
}
