package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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
	cfg, err := config.Load(c.Config)
	if err != nil {
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
	a, err := app.New(cfg, app.Options{
		FirstPassword: show,
		Log:           log.Logger, Version: versionOf().Version, Path: c.Config, Drain: c.Drain,
		Load:    func() (*config.Config, error) { return config.Load(c.Config) },
		Logging: log.configure, Outlet: log.outlet, Sockets: sockets,
	})
	if err != nil {
		return err
	}
	if err := a.Start(context.Background()); err != nil {
		return err
	}
	notify(log.Logger, "READY=1")
	handedOver := "" // the sockets, once a new weir is to have them
	for sig := range signals {
		if sig == upgradeSignal {
			if err = successor.check(c.Config); err == nil {
				handedOver, err = sockets.ForSuccessor()
			}
			if err == nil {
				break
			}
			log.Error("no upgrade: this weir goes on", "err", err)
			continue
		}
		if sig != syscall.SIGHUP {
			break
		}
		notify(log.Logger, "RELOADING=1\n"+monotonic())
		status := "STATUS=reloaded"
		if err := a.Reread(); err != nil { // the app has logged it
			status = "STATUS=the last reload failed, nothing was changed"
		}
		notify(log.Logger, "READY=1\n"+status)
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
	_, err := fmt.Fprintf(t.err, "\nThe console has an operator now. This is shown once:\n\n    name      %s\n    password  "+
		"%s\n\n", name, password)
	return err
}

// stop drains until the deadline or the next signal.
func (c *serveCommand) stop(a *app.App, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Drain)
	defer cancel()
	go func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGHUP && sig != upgradeSignal {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := a.Stop(ctx); err != nil {
		return fmt.Errorf("stopped before everything was done: %w", err)
	}
	return nil
}
