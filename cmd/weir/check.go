package main

import (
	"errors"
	"fmt"

	"weir/config"
	"weir/internal/tabular"
)

// checkCommand is weir check.
type checkCommand struct {
	Files  []string `arg:"" optional:"" name:"file" help:"The configurations to check."`
	Schema bool     `help:"Print the JSON schema of the configuration, for editors, and check nothing."`
	JSON   bool     `name:"json" help:"Print the mistakes as JSON."`
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

// Validate is called by the parser.
func (c *checkCommand) Validate() error {
	if !c.Schema && len(c.Files) == 0 {
		return errors.New("which file?")
	}
	return nil
}

// Run checks the files.
func (c *checkCommand) Run(t *terminal) error {
	if c.Schema {
		_, err := t.out.Write(config.Schema())
		return err
	}
	report := checkReport{OK: true, Errors: []mistake{}, Warnings: []mistake{}}
	for _, file := range c.Files {
		cfg, err := config.Load(file)
		if err != nil {
			report.OK = false
			mistakes, ok := errors.AsType[config.Errors](err)
			if !ok {
				mistakes = config.Errors{{File: file, Msg: err.Error()}}
			}
			report.Errors = append(report.Errors, mistakesOf(mistakes)...)
			if !c.JSON {
				fmt.Fprint(t.err, mistakes.Explain())
			}
			continue
		}
		report.Warnings = append(report.Warnings, mistakesOf(cfg.Warnings)...)
		if !c.JSON {
			for _, w := range cfg.Warnings {
				fmt.Fprintf(t.err, "warning: %s", w.Explain())
			}
			fmt.Fprintf(t.out, "%s: %s, %s, %s\n", file, t.paint(tabular.Good, "ok"), count(gates(cfg), "gate"), count(len(cfg.Throttles), "throttle"))
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

// gates counts the gates of every kind.
func gates(c *config.Config) int {
	n := len(c.HTTP) + len(c.TCP) + len(c.SMTP) + len(c.Postfix) + len(c.Auth) + len(c.RLS) + len(c.XDP)
	if c.API != nil {
		n++
	}
	return n
}
