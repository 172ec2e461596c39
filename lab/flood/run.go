package flood

import (
	"context"
	"slices"
	"time"

	"weir/lab/machine"
)

// Run plays every scene with every front that is installed, one round after the other. When ctx ends, it returns the
// finished rounds and the error of ctx. What it started is stopped.
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.WithDefaults()
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	r := Report{Machine: machine.Describe(), Began: time.Now().Truncate(time.Second), Settings: settingsOf(o),
		Floods: []Flood{}, Scenes: []Played{}, LeftOut: []LeftOut{}}
	var list []found
	for _, f := range fronts() {
		if !slices.Contains(o.Fronts, f.name) {
			continue
		}
		version, err := f.find(o)
		if err != nil {
			r.LeftOut = append(r.LeftOut, LeftOut{Front: f.title, Why: err.Error()})
			continue
		}
		list = append(list, found{f, version})
	}
	rounds := &rounds{Options: o, list: list}
	for _, s := range o.Scenes {
		if s == UnderFlood {
			rounds.progress.Rounds += len(list) * len(o.Kinds)
		} else {
			rounds.progress.Rounds += len(list) * len(s.parts())
		}
	}
	for _, s := range o.Scenes {
		var err error
		if s == UnderFlood {
			r.Floods, err = rounds.floods(ctx)
		} else {
			var played Played
			if played, err = rounds.scene(ctx, s); len(played.Rounds) > 0 {
				r.Scenes = append(r.Scenes, played)
			}
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// A found front is installed here.
type found struct {
	contender
	version string
}

// rounds plays the rounds of a run, one after the other.
type rounds struct {
	Options
	list     []found
	progress Progress
}

// next begins a round, and returns what is called with its progress.
func (t *rounds) next(f found, s Scene, k Kind, expected time.Duration) func(time.Duration) {
	p := &t.progress
	p.Round, p.Front, p.Scene, p.Kind, p.Expected = p.Round+1, f.title, s, k, expected
	return func(elapsed time.Duration) {
		p.Elapsed = elapsed
		t.Watch(*p)
	}
}

// floods plays every kind of flood. With an error it returns what was finished.
func (t *rounds) floods(ctx context.Context) ([]Flood, error) {
	all := []Flood{}
	for _, kind := range t.Kinds {
		one := Flood{Kind: kind, Sources: t.sources(kind), Rounds: []Round{}}
		for _, f := range t.list {
			got, err := against(ctx, f.contender, kind, t.Options, t.next(f, UnderFlood, kind, t.WarmUp+t.For))
			if err != nil {
				if len(one.Rounds) > 0 {
					all = append(all, one)
				}
				return all, err
			}
			got.Front, got.Title, got.Version = f.name, f.title, f.version
			one.Rounds = append(one.Rounds, got)
		}
		all = append(all, one)
	}
	return all, nil
}

// scene plays another scene. With an error it returns what was finished.
func (t *rounds) scene(ctx context.Context, s Scene) (Played, error) {
	played := Played{Scene: s}
	for _, f := range t.list {
		expected := s.options(t.Options).WarmUp + t.For
		one, err := s.show(ctx, f.contender, t.Options,
			func() func(time.Duration) { return t.next(f, s, "", expected) })
		if err != nil {
			return played, err
		}
		one.Version = f.version
		played.Rounds = append(played.Rounds, one)
	}
	return played, nil
}

func against(ctx context.Context, f contender, kind Kind, o Options, watch func(time.Duration)) (Round, error) {
	if err := ctx.Err(); err != nil {
		return Round{}, err
	}
	before := machine.Busy()
	stage, err := build(ctx, f, o, false)
	if err != nil {
		return Round{}, err
	}
	standing := stage.front
	t := newTally(o)
	meter := meter{done: stage.service.Done, from: o.WarmUp, to: t.end}
	var gauges []Gauge
	next := time.Duration(0)
	err = (&round{o: o, kind: kind, front: standing.address, solver: stage.solver, tally: t}).play(ctx,
		func(elapsed time.Duration) {
			meter.look(elapsed)
			if standing.gauge != nil && elapsed >= next && elapsed < t.end {
				next = elapsed.Truncate(time.Second) + time.Second
				if g, err := standing.gauge(ctx); err == nil {
					g.Second = (elapsed - o.WarmUp).Seconds()
					gauges = append(gauges, g)
				}
			}
			watch(elapsed)
		})
	stage.strike()
	if err != nil {
		return Round{}, err
	}
	one := t.report(o)
	one.Use, one.Gauges, one.Others = meter.use(o.Capacity()), gauges, machine.Busy().Others(before)
	return one, nil
}

// A meter measures how much a service did between two times, from a look now and then.
type meter struct {
	done     func() int64 // by the service
	from, to time.Duration

	began, ended time.Duration // the first and the last look
	first, last  int64
}

func (m *meter) look(now time.Duration) {
	if now < m.from || now > m.to && m.ended > m.began {
		return
	}
	done := m.done()
	if m.began == 0 {
		m.began, m.first = now, done
	}
	m.ended, m.last = now, done
}

// use returns how much it did, as a share of its capacity.
func (m *meter) use(capacity float64) float64 {
	if m.ended <= m.began {
		return 0
	}
	return float64(m.last-m.first) / ((m.ended - m.began).Seconds() * capacity)
}
