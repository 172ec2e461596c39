package demo

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/gate/httpgate/accesslog"
	"weir/lab/machine"
)

// loopback is where everything of a scene listens: a port that the system chooses, out of reach from outside.
const loopback = "127.0.0.1:0"

// farewell bounds how long taking a scene down may take.
const farewell = 5 * time.Second

// A crew raises weirs and takes them down again.
type crew struct {
	log     *slog.Logger
	version string
	quiet   *atomic.Bool // the demo itself does something that weir warns of
	closed  bool         // the weirs have no console
	demo    console.Demo // what their console shows of the demo; nil: nothing
	strike  []func()     // run backwards at the end
}

// newCrew returns a crew whose weirs do not log the warnings that are a part of the story.
func newCrew(log *slog.Logger, version string, expects ...string) crew {
	quiet := new(atomic.Bool)
	return crew{quiet: quiet, version: version, log: slog.New(hush{log.Handler(), quiet, expects})}
}

// A Stage is where a scene plays on one side: the weir, and what stands behind it.
type Stage struct {
	crew
	weir    *app.App
	http    int      // the number of its first gate for HTTP: scenes share a weir
	mail    bool     // its gate is for mail
	names   []string // of its throttles
	control *console.Client
	others  []*console.Client // other weirs, whose throttles are switched with the weir's own
	atWork  bool              // the throttles
	length  time.Duration     // of the half; 0 is an open end
	notes   chan string

	// Props is what Setup has made for the actors of this play.
	Props any
}

func newStage(c crew) *Stage {
	return &Stage{crew: c, notes: make(chan string, maxNotes), atWork: true}
}

// own raises a weir for this stage alone.
func (s *Stage) own(cfg config.Config) error {
	s.configured(cfg)
	weirs, err := s.raise(cfg)
	if err == nil {
		s.use(weirs[0])
	}
	return err
}

// configured notes what of a weir belongs to this stage.
func (s *Stage) configured(cfg config.Config) {
	s.mail, s.names = len(cfg.HTTP) == 0, slices.Collect(maps.Keys(cfg.Throttles))
}

// use takes a weir that runs.
func (s *Stage) use(w *app.App) { s.weir, s.control = w, console.NewClient(w.ControlPath()) }

func (s *Stage) ready(scene *Scene) error {
	if scene.Ready == nil {
		return nil
	}
	return scene.Ready(s)
}

// raise starts weirs until the crew closes, side by side, each with a folder of its own.
func (s *crew) raise(all ...config.Config) (weirs []*app.App, err error) {
	for _, cfg := range all {
		dir, err := os.MkdirTemp("", "weir-demo-")
		if err != nil {
			return nil, err
		}
		s.strike = append(s.strike, func() { os.RemoveAll(dir) })
		cfg.Data = dir
		cfg.Console.Listen = loopback
		if s.closed {
			cfg.Console.Listen = console.Off
		}
		cfg.Log = config.Log{Level: config.LevelWarn, Access: accesslog.Options{Requests: accesslog.Off}}
		w, err := app.New(&cfg, app.Options{Log: s.log, Version: s.version, Demo: s.demo})
		if err != nil {
			return nil, err
		}
		weirs = append(weirs, w)
	}
	errs := make([]error, len(weirs))
	var starting sync.WaitGroup
	for i, w := range weirs {
		starting.Go(func() { errs[i] = w.Start(context.Background()) })
	}
	starting.Wait()
	for i, w := range weirs {
		if errs[i] == nil {
			s.strike = append(s.strike, func() {
				ctx, cancel := context.WithTimeout(context.Background(), farewell)
				defer cancel()
				w.Stop(ctx)
			})
		}
	}
	return weirs, errors.Join(errs...)
}

func (s *crew) close() {
	for _, undo := range slices.Backward(s.strike) {
		undo()
	}
	s.strike = nil
}

// Serve starts a web service for the time of the scene and returns its URL.
func (s *Stage) Serve(h http.Handler) (url string, err error) {
	address, stop, err := machine.Serve(h)
	if err != nil {
		return "", err
	}
	s.strike = append(s.strike, stop)
	return "http://" + address, nil
}

// serveFlooded starts a service of fixed capacity.
func (s *Stage) serveFlooded(places, line int, work time.Duration) (url string, err error) {
	return s.Serve(machine.NewService("Hello from the service behind the gate.\n", places, line, work, true))
}

// maxNotes bounds the notes between two looks.
const maxNotes = 100

// Note tells the audience what has happened. What is too much between two looks is left out.
func (s *Stage) Note(texts ...string) {
	for _, text := range texts {
		select {
		case s.notes <- text:
		default:
		}
	}
}

// noted returns the notes since the last call.
func (s *Stage) noted() (texts []string) {
	for range len(s.notes) {
		texts = append(texts, <-s.notes)
	}
	return texts
}

// Front returns the address of the first gate, for people.
func (s *Stage) Front() string {
	if s.mail {
		return "smtp://" + s.MailAddr()
	}
	return s.GateURL(0)
}

// MailAddr returns where the first gate for mail listens.
func (s *Stage) MailAddr() string { return s.weir.Addr("smtp", 0).String() }

func (s *Stage) GateURL(i int) string { return "http://" + s.GateAddr(i) + "/" }

func (s *Stage) GateAddr(i int) string { return s.weir.Addr("http", s.http+i).String() }

func (s *Stage) MetricsURL() string { return "http://" + s.weir.ConsoleAddr().String() + "/metrics" }

func (s *Stage) ControlPath() string { return s.weir.ControlPath() }

// AtWork reports whether the throttles are at work in this half, and not in shadow.
func (s *Stage) AtWork() bool { return s.atWork }

// throttle enforces all throttles, or puts them into shadow, as `weir shadow` does.
func (s *Stage) throttle(on bool) error {
	s.quiet.Store(true)
	defer s.quiet.Store(false)
	states, err := console.ShadowCall.Ask(context.Background(), s.control, console.Shadow{All: true, On: !on})
	if err == nil && !slices.ContainsFunc(states.Throttles,
		func(t console.ShadowState) bool { return t.Throttle != config.Bans }) {
		err = errors.New("there is no throttle to switch")
	}
	for _, other := range s.others {
		_, failed := console.ShadowCall.Ask(context.Background(), other, console.Shadow{All: true, On: !on})
		err = errors.Join(err, failed)
	}
	s.atWork = on
	return err
}

// status returns how weir is, as `weir status` does, without what belongs to other scenes.
func (s *Stage) status() (console.Status, error) {
	status, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	status.Throttles = slices.DeleteFunc(status.Throttles,
		func(t console.ThrottleStatus) bool { return !slices.Contains(s.names, t.Throttle) })
	status.Gates = slices.DeleteFunc(status.Gates, func(g console.GateStatus) bool {
		return !slices.ContainsFunc(s.names, func(name string) bool {
			return slices.Contains(g.Throttles, name) || slices.Contains(g.Accept, name)
		})
	})
	if !s.mail {
		status.Mail = nil
	}
	return status, err
}

// quoted quotes a path for a shell.
func quoted(path string) string {
	if strings.IndexFunc(path, special) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("/._-+:@%", r))
}

// hush is a log handler that can be silenced: switching shadow is worth a warning to an operator, but not to the
// audience of a demo.
type hush struct {
	slog.Handler
	quiet   *atomic.Bool
	expects []string // messages that are a part of the story
}

func (h hush) Enabled(ctx context.Context, l slog.Level) bool {
	return !h.quiet.Load() && h.Handler.Enabled(ctx, l)
}

func (h hush) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(h.expects, r.Message) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h hush) WithAttrs(a []slog.Attr) slog.Handler {
	return hush{h.Handler.WithAttrs(a), h.quiet, h.expects}
}

func (h hush) WithGroup(name string) slog.Handler {
	return hush{h.Handler.WithGroup(name), h.quiet, h.expects}
}
