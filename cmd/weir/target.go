package main

import (
	"os"

	"weir/config"
	"weir/console"
)

// A target is the running weir that a command speaks to.
type target struct {
	Control string `placeholder:"PATH" help:"The control socket of the weir to speak to. Default: $$WEIR_CONTROL, else as in the configuration."`
	Config  string `short:"c" placeholder:"FILE" help:"The configuration of the weir to speak to, to find its control socket."`
}

// client finds the control socket: what was typed goes before the environment.
func (t target) client() (*console.Client, error) {
	path := t.Control
	if path == "" && t.Config == "" {
		path = os.Getenv("WEIR_CONTROL")
	}
	if path == "" {
		cfg := &config.Config{}
		if t.Config != "" {
			var err error
			if cfg, err = config.Load(t.Config); err != nil {
				return nil, err
			}
		}
		path = cfg.WithDefaults().Control
	}
	return console.NewClient(path), nil
}
