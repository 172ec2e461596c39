package demo

import (
	"time"

	"weir/console"
)

// maxTold is how many notes the page has.
const maxTold = 6

// hear returns what has happened in a scene since the last call, and keeps the last of it for the page.
func (h *house) hear(p *pair) (notes []string) {
	for _, s := range p.sides() {
		notes = append(notes, s.stage.noted()...)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.told = append(p.told, notes...)
	p.told = p.told[max(len(p.told)-maxTold, 0):]
	return notes
}

// Scenes returns how all scenes stand.
func (h *house) Scenes() []console.DemoScene { return h.snapshot(time.Now()) }

func (h *house) snapshot(now time.Time) (all []console.DemoScene) {
	h.mu.Lock()
	open := h.open
	h.mu.Unlock()
	if !open { // it is not built yet, or not any more
		return []console.DemoScene{}
	}
	for _, p := range h.pairs {
		all = append(all, h.stateOf(p))
		s := &all[len(all)-1]
		s.Name, s.Story, s.Rule, s.Pays = p.Name, p.Story, p.Rule, p.Pay != nil
		s.Without, s.With = p.without.snapshot(now), p.with.snapshot(now)
	}
	return all
}

// stateOf says what goes on in a scene.
func (h *house) stateOf(p *pair) (s console.DemoScene) {
	h.mu.Lock()
	scripted := p.scripted
	h.mu.Unlock()
	if !scripted { // else the show tells the notes
		h.hear(p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Notes = append([]string{}, p.told...)
	c := p.called
	switch {
	case p.scripted:
		s.Playing, s.Paying = console.DemoScripted, p.Pay != nil
	case c == nil:
	case c.leaving || c.ebbing:
		s.Playing, s.Paying = console.DemoLeaving, c.paying
	case c.flood != nil:
		s.Playing, s.Paying, s.Until = console.DemoFlooded, c.paying, c.until
	default:
		s.Playing, s.Paying = console.DemoPeople, c.paying
	}
	return s
}

func (s *side) snapshot(now time.Time) console.DemoSide {
	return console.DemoSide{Gate: s.stage.Front(), At: now.Unix() - 1, People: s.role(People, now),
		Flood: s.role(Flood, now)}
}

// role sums up what became of the requests of all who have a role.
func (s *side) role(role Role, now time.Time) (r console.DemoRole) {
	r.Passed, r.NotPassed = make([]int64, console.DemoSeconds), make([]int64, console.DemoSeconds)
	for _, a := range s.cast {
		if a.Role != role {
			continue
		}
		for i := range console.DemoSeconds {
			at := a.tally.at(now.Unix() - console.DemoSeconds + int64(i))
			r.Passed[i] += at.served
			r.NotPassed[i] += at.refused + at.failed
		}
	}
	f := figuresOfRole(s.cast, role)
	r.Sent, r.Served, r.Refused, r.Failed, r.Held, r.Median = f.Sent, f.Served, f.Refused, f.Failed, f.Held, f.P50
	return r
}
