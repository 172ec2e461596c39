package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"weir"
	"weir/app"
	"weir/config"
	"weir/internal/tabular"
	"weir/upstream"
)

type checkCommand struct {
	Files  []string `arg:"" optional:"" name:"file" help:"The configurations to check. Default: $$WEIR_CONFIG, else /etc/weir/weir.yaml."`
	Schema bool     `help:"Print the JSON schema of the configuration, for editors, and check nothing."`
	Strict bool     `help:"Treat warnings as errors."`
	JSON   bool     `name:"json" help:"Print the errors as JSON."`
}

// checkReport is what --json prints.
type checkReport struct {
	OK       bool      `json:"ok"`
	Errors   []mistake `json:"errors"`
	Warnings []mistake `json:"warnings"`
}

type mistake struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (c *checkCommand) Validate() error {
	if c.Schema || len(c.Files) > 0 {
		return nil
	}
	file, err := needConfig("")
	c.Files = []string{file}
	return err
}

func (c *checkCommand) Run(t *terminal) error {
	if c.Schema {
		_, err := t.out.Write(config.Schema())
		return err
	}
	report := checkReport{OK: true, Errors: []mistake{}, Warnings: []mistake{}}
	for _, file := range c.Files {
		cfg, err := load(file)
		if cfg != nil {
			cfg.Warnings = append(cfg.Warnings, unresolved(cfg, file, net.DefaultResolver)...)
			report.Warnings = append(report.Warnings, mistakesOf(cfg.Warnings)...)
			report.OK = report.OK && !(c.Strict && len(cfg.Warnings) > 0)
			for _, w := range cfg.Warnings {
				if !c.JSON {
					fmt.Fprintf(t.err, "warning: %s", w.Explain())
				}
			}
		}
		if err != nil {
			report.OK = false
			mistakes, ok := errors.AsType[config.Errors](err)
			if !ok {
				mistakes = config.At(file, weir.FieldErrors(err))
			}
			report.Errors = append(report.Errors, mistakesOf(mistakes)...)
			if !c.JSON {
				fmt.Fprint(t.err, mistakes.Explain())
			}
			continue
		}
		if !c.JSON {
			fmt.Fprintf(t.out, "%s: %s, %s, %s\n", file, t.paint(tabular.Good, "ok"), count(gates(cfg), "gate"),
				count(len(cfg.Throttles), "throttle"))
			for _, line := range app.RouteLines(cfg) {
				fmt.Fprintf(t.out, "  %s\n", printable(line))
			}
		}
	}
	if c.JSON {
		if err := t.json(report); err != nil {
			return err
		}
	}
	if !report.OK {
		return errTold
	}
	return nil
}

// load reads a configuration, builds everything in it as weir serve would, and looks for what this machine lacks: a
// file that it names may be missing.
func load(file string) (*config.Config, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	return cfg, errors.Join(built(cfg, file), cfg.NotHere())
}

// built builds everything in a configuration, and adds what this machine lacks to its warnings.
func built(cfg *config.Config, file string) error {
	cfg.Warnings = append(cfg.Warnings, tooFewFiles(cfg, file, openFiles())...)
	_, err := app.New(cfg, app.Options{})
	return err
}

// otherFiles is how many files weir has open besides connections: listeners, the store, incoming messages.
const otherFiles = 200

// tooFewFiles warns where the system allows fewer open files than the bounds of the gates need.
func tooFewFiles(cfg *config.Config, file string, limit uint64) config.Errors {
	needed := uint64(cfg.Connections() + otherFiles)
	if limit == 0 || limit >= needed {
		return nil
	}
	return config.Errors{{File: file,
		Msg:  fmt.Sprintf("weir may have %d files open here, and the bounds of its gates need %d", limit, needed),
		Hint: "raise LimitNOFILE, or lower bounds.connections"}}
}

// lookupTime is how long the names of all servers may take to be looked up.
const lookupTime = 3 * time.Second

// unresolved warns of servers whose names have no address here. weir would start, and answer with 503.
func unresolved(cfg *config.Config, file string, by upstream.Resolver) config.Errors {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	var warnings []*weir.FieldError
	for i := range cfg.HTTP {
		o := &cfg.HTTP[i].Upstream
		names := o.Names()
		for k, server := range o.Servers {
			name, looked := names[server]
			if !looked {
				continue
			}
			all.Go(func() {
				_, err := by.LookupNetIP(ctx, o.Family.Network(), name)
				if err == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				warnings = append(warnings, &weir.FieldError{Path: fmt.Sprintf("http[%d].upstream.servers[%d]", i, k),
					Msg:  fmt.Sprintf("%s cannot be looked up here: %v", name, err),
					Hint: "weir starts, and answers with 503 until it can be"})
			})
		}
	}
	all.Wait()
	slices.SortFunc(warnings, func(a, b *weir.FieldError) int { return cmp.Compare(a.Path, b.Path) })
	return config.At(file, warnings)
}

func mistakesOf(all config.Errors) []mistake {
	var list []mistake
	for _, e := range all {
		list = append(list, mistake{e.File, e.Line, e.Column, e.Msg, e.Hint})
	}
	return list
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func gates(c *config.Config) int {
	n := len(c.XDP)
	for range c.Gates() {
		n++
	}
	return n
}

// defaultConfig is the configuration where nobody names another, and configVariable the variable that names one.
const (
	defaultConfig  = "/etc/weir/weir.yaml"
	configVariable = "WEIR_CONFIG"
)

// errNoConfig is returned where a command needs a configuration and there is none.
var errNoConfig = errors.New("which configuration?")

// configFile says which configuration is meant: the one that was typed, else that of the environment, else the usual
// file if there is one, else "". A usual file that cannot be read is there all the same.
func configFile(typed, environment, usual string) string {
	switch {
	case typed != "":
		return typed
	case environment != "":
		return environment
	}
	if _, err := os.Stat(usual); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return usual
}

// findConfig is configFile on this machine.
func findConfig(typed string) string {
	return configFile(typed, os.Getenv(configVariable), defaultConfig)
}

// needConfig is findConfig for a command that cannot do without.
func needConfig(typed string) (string, error) {
	if file := findConfig(typed); file != "" {
		return file, nil
	}
	return "", fmt.Errorf("%w name a file, set %s, or make %s (weir init writes one)", errNoConfig, configVariable, defaultConfig)
}
