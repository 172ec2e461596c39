package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"weir/app"
	"weir/config"
	skeleton "weir/gate"
)

type serveCommand struct {
	Config string        `short:"c" placeholder:"FILE" help:"The configuration. Default: $$WEIR_CONFIG, else /etc/weir/weir.yaml."`
	Drain  time.Duration `default:"30s" help:"How long requests under way may take to finish when weir stops (${default})."`
}

// Validate finds the configuration.
func (c *serveCommand) Validate() (err error) {
	c.Config, err = needConfig(c.Config)
	return err
}

// Run serves until SIGINT or SIGTERM; SIGHUP reloads, and SIGUSR2 lets a new binary take over. A second signal ends the
// wait for what is under way.
func (c *serveCommand) Run(t *terminal) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	if upgradeSignal > 0 {
		signal.Notify(signals, upgradeSignal)
	}
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may end before weir does
	log := newLog(t.err, t.errTTY)
	defer log.close()
	collectRarely()
	successor, err := newSuccession()
	if err != nil {
		return err
	}
	sockets, err := skeleton.InheritSockets()
	if err != nil {
		return err
	}
	heard := &hearing{signals: signals}
	var cfg *config.Config
	stop, err := heard.during(func() (err error) {
		cfg, err = config.Load(c.Config)
		return err
	})
	if stop || err != nil {
		return err
	}
	log.configure(cfg.WithDefaults().Log)
	for _, w := range append(cfg.Warnings, tooFewFiles(cfg, c.Config, openFiles())...) {
		log.Warn(w.Error())
	}
	var show func(name, password string) error
	if t.errTTY {
		show = t.firstPassword
	}
	var a *app.App
	if stop, err := heard.during(func() (err error) {
		a, err = app.New(cfg, app.Options{
			FirstPassword: show,
			Log:           log.Logger, Version: versionOf().Version, Path: c.Config, Drain: c.Drain,
			Load:    func() (*config.Config, error) { return config.Load(c.Config) },
			Logging: log.configure, LogBuffer: log.buffer, Sockets: sockets,
		})
		return err
	}); stop || err != nil {
		return err
	}
	handedOver := "" // the sockets, once a new weir is to have them
	stop, err = heard.during(func() error { return a.Start(context.Background()) })
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w (ss -ltnp shows which program has it; stop that, or write another address)", err)
	}
	if err != nil {
		return err
	}
	if !stop {
		notify(log.Logger, "READY=1")
	}
	for !stop && handedOver == "" {
		switch sig := heard.next(); sig {
		case upgradeSignal:
			stop, err = heard.during(func() error { return successor.check(c.Config) })
			if !stop && err == nil {
				handedOver, err = sockets.ForSuccessor()
			}
			if err != nil {
				a.NotUpgraded(err)
			}
		case syscall.SIGHUP:
			notify(log.Logger, "RELOADING=1\n"+monotonic())
			status := "STATUS=reloaded"
			if stop, err = heard.during(a.Reread); err != nil { // the app has logged it
				status = "STATUS=the last reload failed, nothing was changed"
			}
			if !stop {
				notify(log.Logger, "READY=1\n"+status)
			}
		default:
			stop = true
		}
	}
	if handedOver == "" {
		notify(log.Logger, "STOPPING=1")
		return c.stop(a, signals)
	}
	log.Info("another weir takes the place of this one", "binary", successor.String())
	notify(log.Logger, "RELOADING=1\n"+monotonic())
	if err := c.stop(a, signals); err != nil {
		log.Warn(err.Error())
	}
	log.close()
	return successor.become(handedOver)
}

// firstPassword shows the first password of the console on the terminal. The log may go elsewhere, and never has it.
func (t *terminal) firstPassword(name, password string) error {
	_, err := fmt.Fprintf(t.err, "\nNobody has logged in to the console yet as:\n\n    name      %s\n    password  %s\n\n"+
		"Each start on a terminal shows this until somebody has.\n\n", name, password)
	return err
}

// lastPatience is how long weir closes what it has open after the drain is over. A delivery of mail may need 5 seconds.
const lastPatience = 6 * time.Second

// errHangs is returned where something does not let weir end in order.
var errHangs = errors.New("something hangs, such as a disk or a share")

// stop drains until the deadline or the next signal. It ends even if something hangs.
func (c *serveCommand) stop(a *app.App, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Drain)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(ctx) }()
	var err error
	for over, last := ctx.Done(), (<-chan time.Time)(nil); ; {
		select {
		case err = <-stopped:
		case <-last:
			err = errHangs
		case sig := <-signals:
			if isStop(sig) {
				cancel()
			}
			continue
		case <-over:
			over, last = nil, time.After(lastPatience)
			continue
		}
		if err != nil {
			return fmt.Errorf("stopped before everything was done: %w", err)
		}
		return nil
	}
}

// isStop reports whether a signal tells weir to stop.
func isStop(sig os.Signal) bool { return sig != syscall.SIGHUP && sig != upgradeSignal }

// hearing takes signals, also while weir does something that may take long.
type hearing struct {
	signals <-chan os.Signal
	later   os.Signal // came meanwhile; an upgrade reads the configuration, too
}

// during does something, and returns before it is done if weir is to stop.
func (h *hearing) during(do func() error) (stop bool, err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			return false, err
		case sig := <-h.signals:
			if isStop(sig) {
				return true, nil
			}
			if h.later != upgradeSignal {
				h.later = sig
			}
		}
	}
}

// next waits for a signal.
func (h *hearing) next() os.Signal {
	if sig := h.later; sig != nil {
		h.later = nil
		return sig
	}
	return <-h.signals
}

// roomyHeap is how large the heap may grow before garbage is collected, however little of it is in use.
const roomyHeap = 64 << 20

// mostPercent lets the runtime wait for roomyHeap before it first collects: that many percent of the 4 MiB that it
// takes for the least heap.
const mostPercent = roomyHeap / (4 << 20) * 100

// collectRarely makes garbage collections of a small heap rare. Otherwise a weir that keeps little in memory and
// answers many requests would collect dozens of times a second, and every hundredth request would wait for that. If
// GOGC is set, nothing is changed.
func collectRarely() {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := &collection{percent: 100, sizes: []metrics.Sample{{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}}
	c.adjust()
}

// A collection is referenced by nothing, so that its finalizer runs at every garbage collection and adjusts the next
// one.
type collection struct {
	percent int              // as GOGC
	sizes   []metrics.Sample // which together make 100 percent, the live heap first
}

func (c *collection) adjust() {
	metrics.Read(c.sizes)
	live, whole := c.sizes[0].Value.Uint64(), uint64(0)
	for _, s := range c.sizes {
		whole += s.Value.Uint64()
	}
	percent := percentFor(live, whole)
	if d := percent - c.percent; max(d, -d) > c.percent/4 { // each change stops everything for a moment
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(c, (*collection).adjust)
}

// percentFor is how much garbage there may be, in percent of the whole that is scanned for it: as much as fits into
// roomyHeap, or two fifths of a heap that is larger. Stacks count as scanned, but they are not garbage: requests that
// wait have large ones, and what they left behind would otherwise take more memory than they do.
func percentFor(live, whole uint64) int {
	if whole == 0 {
		return 100
	}
	garbage := live / 5 * 2
	if live < roomyHeap {
		garbage = max(garbage, roomyHeap-live)
	}
	return int(min(max(garbage*100/whole, 10), mostPercent))
}
