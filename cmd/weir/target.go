package main

import (
	"context"
	"errors"
	"os"

	"weir/config"
	"weir/console"
)

// A target is the running weir that a command talks to.
type target struct {
	Control string `placeholder:"PATH" help:"The control socket of the running weir. Default: $$WEIR_CONTROL, else as in the configuration."`
	Config  string `short:"c" placeholder:"FILE" help:"The configuration of the running weir, to find its control socket. Default: $$WEIR_CONFIG, else /etc/weir/weir.yaml."`
}

// client finds the control socket. Flags win over the environment.
func (t target) client() (*console.Client, error) {
	path := t.Control
	if path == "" && t.Config == "" {
		path = os.Getenv("WEIR_CONTROL")
	}
	if path == "" {
		cfg := &config.Config{}
		if file := findConfig(t.Config); file != "" {
			var err error
			if cfg, err = config.Load(file); err != nil {
				return nil, err
			}
		}
		path = cfg.WithDefaults().Control
	}
	return console.NewClient(path), nil
}

// ask calls a running weir and prints the answer, as JSON or by show.
func ask[T any](t *terminal, to target, asJSON bool, call func(*console.Client, context.Context) (T, error),
	show func(*T)) error {
	client, err := to.client()
	if err != nil {
		return err
	}
	answer, err := call(client, context.Background())
	if err != nil {
		return err
	}
	if asJSON {
		return t.json(answer)
	}
	show(&answer)
	return nil
}

// checkLimit checks a --limit for which 0 means all.
func checkLimit(limit int) error {
	if limit < 0 {
		return errors.New("--limit: at least 0")
	}
	return nil
}

// pages collects pages until there are limit items, or all of them if limit is 0. next is told how many to return.
func pages[T any](limit, most int, next func(n int) (page []T, more bool, err error)) ([]T, error) {
	all := []T{}
	for {
		n := most
		if limit > 0 {
			n = min(limit-len(all), most)
		}
		page, more, err := next(n)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); !more || limit > 0 && len(all) >= limit {
			return all, nil
		}
	}
}
