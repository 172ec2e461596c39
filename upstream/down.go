package upstream

// Down reports whether a server has failed and did not come back yet. Unlike Stats.Well it does not change when the
// next request may try the server.
func (p *Pool) Down(name string) bool {
	for _, s := range p.servers() {
		if s.to.name == name {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.health.down
		}
	}
	return false
}
