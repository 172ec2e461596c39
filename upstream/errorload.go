package upstream

// errorUnit is what one error counts for in a server's load, and one request under way.
const errorUnit = 1 << 12

// A server that answers with errors does so at once, and would seem to have the least to do. So an error counts as a
// request under way, until each of the other servers has answered well once, as an average, or the server itself has.
// Then a server that fails gets its part of the requests at most, however long the good answers take, and without a
// clock.

// loadOf is what least-connections goes by.
func (s *server) loadOf() int64 { return s.active.Load()*errorUnit + s.errorLoad.Load() }

// weigh notes how a server answered.
func (p *Pool) weigh(all []*server, s *server, well bool) {
	if len(all) < 2 || p.opts.Balance != LeastConnections {
		return
	}
	if well {
		for _, other := range all {
			if other == s {
				other.lighten(errorUnit)
			} else {
				other.lighten(errorUnit / int64(len(all)-1))
			}
		}
		return
	}
	// When all fail, none of them must be left with so much that it gets nothing for long after that.
	var most int64
	for _, other := range all {
		if other != s {
			most = max(most, other.active.Load())
		}
	}
	if s.errorLoad.Load() <= most*errorUnit {
		s.errorLoad.Add(errorUnit)
	}
}

func (s *server) lighten(n int64) {
	for {
		load := s.errorLoad.Load()
		if load == 0 || s.errorLoad.CompareAndSwap(load, max(0, load-n)) {
			return
		}
	}
}
