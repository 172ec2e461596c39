package flood

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/lab/machine"
)

// loopback is where everything listens: a port that the system chooses, out of reach from outside.
const loopback = "127.0.0.1:0"

// farewell bounds how long it may take to stop something.
const farewell = 5 * time.Second

// A contender is what stands in front of the service.
type contender struct {
	name  string // as people write it
	title string // as it is shown
	// find returns its version, or why it cannot be used here.
	find func(Options) (version string, err error)
	// start puts it in front of a service.
	start func(ctx context.Context, site site) (*standing, error)
}

type site struct {
	Options
	service string // the address of the service
	keyed   bool   // clients have keys
	folder  string // for what the front writes; it is removed at the end
}

// A standing contender takes requests.
type standing struct {
	address string
	stop    func()
	// gauge reads how the front sees things; nil for one that does not tell.
	gauge func(context.Context) (Gauge, error)
}

// A Gauge is what a front reports of itself at a moment.
type Gauge struct {
	Second  float64 `json:"second"`   // since the end of the warm-up
	Load    float64 `json:"load"`     // what is asked of the service, in proportion to what it can do
	DelayMS float64 `json:"delay_ms"` // of those who paid
	InLine  int     `json:"in_line"`  // people in the waiting room
	Work    uint64  `json:"work"`     // what it asks for a stamp, in operations
}

// fronts are all contenders, in the order in which they are shown.
func fronts() []contender { return []contender{nothing(), nginx(), haproxy(), ours()} }

// Fronts lists the names of what can be compared.
func Fronts() (names []string) {
	for _, f := range fronts() {
		names = append(names, f.name)
	}
	return names
}

func nothing() contender {
	return contender{
		name: "none", title: "nothing",
		find: func(Options) (string, error) { return "", nil },
		start: func(_ context.Context, p site) (*standing, error) {
			return &standing{address: p.service, stop: func() {}}, nil
		},
	}
}

// A stage is everything that a round needs.
type stage struct {
	service *machine.Service
	front   *standing
	solver  solver
	undo    []func()
}

// build builds a stage. Clients may have keys. Where it fails, nothing is left behind.
func build(ctx context.Context, f contender, o Options, keyed bool) (*stage, error) {
	s := &stage{}
	if err := s.build(ctx, f, o, keyed); err != nil {
		s.strike()
		return nil, fmt.Errorf("%s: %w", f.title, err)
	}
	return s, nil
}

func (s *stage) build(ctx context.Context, f contender, o Options, keyed bool) error {
	folder, err := os.MkdirTemp("", "weir-flood-")
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() { os.RemoveAll(folder) })
	s.service = machine.NewService("<!doctype html><title>The service</title><p>Hello from the service.\n",
		o.Concurrent,
		o.Queue, o.Work, false)
	address, stop, err := machine.Serve(s.service)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, stop)
	s.front, err = f.start(ctx, site{Options: o, service: address, keyed: keyed, folder: folder})
	if err != nil {
		return err
	}
	s.undo = append(s.undo, s.front.stop)
	s.solver, err = s.addSolver(o)
	return err
}

func (s *stage) addSolver(o Options) (solver, error) {
	if o.Solver == "" {
		return newHere(), nil
	}
	away, err := startSolver(o.Solver)
	if err != nil {
		return nil, fmt.Errorf("the solver: %w", err)
	}
	s.undo = append(s.undo, away.stop)
	return away, nil
}

func (s *stage) strike() {
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
	s.undo = nil
}

// ours is weir as an operator would run it: the capacity of the service, and stamps with their defaults but for the
// puzzle.
func ours() contender {
	return contender{name: "weir", title: "weir", find: func(o Options) (string, error) { return o.Version, nil },
		start: startWeir}
}

// ourConfig is what an operator would write who knows the capacity of the service and chooses a puzzle.
const ourConfig = `
data: %q
http:
- listen: %s
  upstream: http://%s
  capacity: {concurrent: %d}
  trusted_proxies: [127.0.0.0/8]
  throttles: [stamps]
throttles:
  stamps: {stamp: {algorithm: %s}}
console: {listen: "off"}
log: {level: error, access: "off"}
`

// keyed turns ourConfig into that of the README: each key has its limit, and clients without one are counted by
// address.
var keyed = strings.NewReplacer("  throttles: [stamps]\n", `  account: ["header:`+keyHeader+`"]
  throttles: [plans, stamps]
`, "throttles:\n  stamps", `throttles:
  plans:
    quota:
      policies:
      - {name: per-second, limit: 5, period: 1s}
  stamps`)

func startWeir(ctx context.Context, at site) (*standing, error) {
	text := ourConfig
	if at.keyed {
		text = keyed.Replace(text)
	}
	text = fmt.Sprintf(text, filepath.Join(at.folder, "weir"), loopback, at.service, at.Concurrent, at.Algorithm)
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	a, err := app.New(cfg, app.Options{Version: at.Version})
	if err != nil {
		return nil, err
	}
	if err := a.Start(ctx); err != nil {
		return nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		a.Stop(ctx)
	}
	control := console.NewClient(a.ControlPath())
	gauge := func(ctx context.Context) (g Gauge, err error) {
		status, err := console.StatusCall.Ask(ctx, control, console.None{})
		if err != nil {
			return g, err
		}
		for _, gate := range status.Gates {
			if c := gate.Capacity; c != nil {
				g.Load, g.DelayMS, g.InLine = c.Load, c.Delay, c.InLine
			}
		}
		for _, t := range status.Throttles {
			if t.Stamp != nil {
				g.Work = t.Stamp.Most()
			}
		}
		return g, nil
	}
	return &standing{address: a.Addr("http", 0).String(), stop: stop, gauge: gauge}, nil
}
