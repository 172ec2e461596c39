package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/console/access"
)

// A house is where all scenes play. It has one weir with a gate for each scene, and a twin that differs in one thing:
// its throttles are in shadow. A scene that needs several weirs has its own on each side. The script and the visitors
// of the page play in the same house, one of them in a scene at a time.
type house struct {
	pairs []*pair
	crews [2]crew // of the weir in shadow and of the one at work
	key   string  // of the page
	weir  *Stage  // anything on the side at work that uses the shared weir; nil where no scene does

	// Bounds of what visitors start.
	flood, stay time.Duration

	mu      sync.Mutex
	open    bool           // visitors may act
	playing sync.WaitGroup // what visitors have started
}

// How long the flood of a visitor stays at most, and the people after it.
const (
	floodMost  = 30 * time.Second
	peopleStay = 20 * time.Second
)

// A pair is a scene on both sides.
type pair struct {
	*Scene
	without, with *side

	// Under the lock of the house.
	scripted bool     // the script plays it
	called   *call    // what a visitor has started; nil: nothing
	told     []string // the last notes
}

// side returns one of the sides.
func (p *pair) side(on bool) *side {
	if on {
		return p.with
	}
	return p.without
}

// A side is a scene with the throttles at work, or in shadow.
type side struct {
	stage *Stage
	cast  []*player
}

// enter lets some of the cast act until ctx ends. leave is to be called when the workers have finished.
func (s *side) enter(ctx context.Context, workers *sync.WaitGroup, who func(*player) bool) (leave func()) {
	var done []func()
	for _, a := range s.cast {
		if !who(a) {
			continue
		}
		if a.Later != nil {
			a.Later(s.stage, a.tally.later())
		}
		act, left := a.Enter(s.stage)
		done = append(done, left)
		for range a.Workers {
			workers.Go(func() { a.work(ctx, act) })
		}
	}
	return func() {
		for _, left := range done {
			left()
		}
	}
}

// openHouse starts everything. Where it fails, nothing is left behind.
func openHouse(list []*Scene, log *slog.Logger, version string) (*house, error) {
	h := &house{key: rand.Text(), flood: floodMost, stay: peopleStay}
	var expects []string
	for _, scene := range list {
		expects = append(expects, scene.Expects...)
		h.pairs = append(h.pairs, &pair{Scene: scene})
	}
	errs := make([]error, 2)
	var building sync.WaitGroup
	for i := range h.crews {
		h.crews[i] = newCrew(log, version, expects...)
		h.crews[i].closed = i == 0
		if i == 1 {
			h.crews[i].demo = h
		}
		building.Go(func() { errs[i] = h.build(i == 1, &h.crews[i], log) })
	}
	building.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = h.admit()
	}
	if err != nil {
		h.close()
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	return h, nil
}

// build builds one side of all scenes.
func (h *house) build(on bool, c *crew, log *slog.Logger) error {
	var shared config.Config
	var stages []*Stage
	for _, p := range h.pairs {
		own := *c // what a stage raises is its own
		if own.strike = nil; p.Apart {
			own = newCrew(log, c.version, p.Expects...)
			own.closed = c.closed
		}
		s := newStage(own)
		c.strike = append(c.strike, s.close)
		cfg, err := p.Setup(s)
		switch {
		case err != nil:
		case p.Apart:
			err = s.own(cfg)
		default:
			s.http = len(shared.HTTP)
			s.configured(cfg)
			err = join(&shared, cfg)
			stages = append(stages, s)
		}
		if err != nil {
			return fmt.Errorf("scene %s: %w", p.Name, err)
		}
		set := &side{stage: s}
		for i := range p.Cast {
			set.cast = append(set.cast, &player{Actor: p.Cast[i]})
		}
		if on {
			p.with = set
		} else {
			p.without = set
		}
	}
	if len(stages) > 0 {
		w, err := c.raiseShared(shared)
		if err != nil {
			return err
		}
		for _, s := range stages {
			s.use(w)
		}
		if on {
			h.weir = stages[0]
		}
	}
	for _, p := range h.pairs {
		s := p.side(on).stage
		err := s.ready(p.Scene)
		if err == nil && !on {
			err = s.throttle(false)
		}
		if err != nil {
			return fmt.Errorf("scene %s: %w", p.Name, err)
		}
	}
	return nil
}

// raiseShared raises the weir that scenes share. Each of its gates has an address that is known before: gates are
// called by that, in the console too. Another program may take one meanwhile; then others are tried.
func (s *crew) raiseShared(cfg config.Config) (w *app.App, err error) {
	var at []*string
	for i := range cfg.HTTP {
		at = append(at, &cfg.HTTP[i].Listen)
	}
	for i := range cfg.SMTP {
		at = append(at, &cfg.SMTP[i].Listen)
	}
	if cfg.API != nil {
		at = append(at, &cfg.API.Listen)
	}
	at = slices.DeleteFunc(at, func(listen *string) bool { return *listen != loopback })
	for range 5 {
		for _, listen := range at {
			if *listen, err = unassigned(); err != nil {
				return nil, err
			}
		}
		var weirs []*app.App
		if weirs, err = s.raise(cfg); err == nil {
			return weirs[0], nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, err
}

// join adds what a scene needs to the configuration of the weir that all share.
func join(all *config.Config, one config.Config) error {
	all.HTTP = append(all.HTTP, one.HTTP...)
	all.SMTP = append(all.SMTP, one.SMTP...)
	if one.API != nil {
		if all.API != nil {
			return errors.New("another scene has the decision API")
		}
		all.API = one.API
	}
	if one.SelfService.Listen != "" {
		all.SelfService = one.SelfService
	}
	if all.Throttles == nil {
		all.Throttles = map[string]config.Throttle{}
	}
	for name := range one.Throttles {
		if _, taken := all.Throttles[name]; taken {
			return fmt.Errorf("another scene has a throttle %s", name)
		}
	}
	maps.Copy(all.Throttles, one.Throttles)
	return nil
}

// admit lets visitors in: the address of the page has the password of an operator who is there for that alone.
func (h *house) admit() error {
	if h.weir == nil {
		return nil
	}
	_, err := console.OperatorAddCall.Ask(context.Background(), h.weir.control,
		console.NewOperator{Name: console.DemoVisitor,
			Role: access.Act, Password: h.key})
	return err
}

// address returns where the page is, or "".
func (h *house) address() string {
	if h.weir == nil {
		return ""
	}
	u := url.URL{Scheme: "http", Host: h.weir.weir.ConsoleAddr().String(), Path: console.EnterPath,
		RawQuery: url.Values{"key": {h.key}}.Encode()}
	return u.String()
}

// close sends everybody home and takes everything down.
func (h *house) close() {
	h.mu.Lock()
	h.open = false
	for _, p := range h.pairs {
		p.called.end()
	}
	h.mu.Unlock()
	h.playing.Wait()
	var closing sync.WaitGroup
	for i := range h.crews {
		closing.Go(h.crews[i].close)
	}
	closing.Wait()
}

// pairOf returns the scene of a name.
func (h *house) pairOf(name string) *pair {
	if i := slices.IndexFunc(h.pairs, func(p *pair) bool { return p.Name == name }); i >= 0 {
		return h.pairs[i]
	}
	return nil
}
