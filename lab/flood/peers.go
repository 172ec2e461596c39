package flood

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"text/template"

	"weir/lab/machine"
	"weir/lab/peers"
)

// Limits of an address in the peers' configurations, as in the examples of their documentation.
const (
	addressRate  = 10 // requests a second
	addressBurst = 20
)

// A peer is a front that is a program with a configuration.
type peer struct {
	name, title string
	version     []string // how it is asked for its version
	number      *regexp.Regexp
	template    string
	run         func(config, folder string) (args []string)
}

func nginx() contender {
	return peer{
		name: "nginx", title: "nginx", version: []string{"-v"}, number: regexp.MustCompile(`nginx/(\S+)`),
		template: peers.Nginx,
		run:      func(config, folder string) []string { return []string{"-p", folder, "-e", "stderr", "-c", config} },
	}.front()
}

func haproxy() contender {
	return peer{
		name: "haproxy", title: "HAProxy", version: []string{"-v"},
		number: regexp.MustCompile(`(?i)haproxy version ([^\s-]+)`), template: peers.HAProxy,
		run: func(config, _ string) []string { return []string{"-db", "-q", "-f", config} },
	}.front()
}

func (p peer) front() contender {
	return contender{
		name: p.name, title: p.title,
		find: func(Options) (string, error) {
			program, err := machine.Find(p.name)
			if err != nil {
				return "", err
			}
			out, err := exec.Command(program, p.version...).CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("it cannot be run: %w", err)
			}
			if found := p.number.FindSubmatch(out); found != nil {
				return string(found[1]), nil
			}
			return "", nil
		},
		start: p.start,
	}
}

// start runs the peer on a free port. Where another process was faster there, it tries another port.
func (p peer) start(ctx context.Context, at site) (*standing, error) {
	program, err := machine.Find(p.name)
	if err != nil {
		return nil, err
	}
	var s *standing
	for range 3 {
		if s, err = p.once(ctx, program, at); err == nil || ctx.Err() != nil {
			break
		}
	}
	return s, err
}

func (p peer) once(ctx context.Context, program string, at site) (*standing, error) {
	listen, err := machine.FreeAddress("127.0.0.1")
	if err != nil {
		return nil, err
	}
	config, err := p.write(listen, at)
	if err != nil {
		return nil, err
	}
	running, err := machine.Start(machine.Task{Program: program, Args: p.run(config, at.folder)})
	if err != nil {
		return nil, err
	}
	if err := running.Listens(ctx, "tcp", listen); err != nil {
		running.Stop()
		return nil, err
	}
	return &standing{address: listen, stop: running.Stop}, nil
}

func (p peer) write(listen string, at site) (string, error) {
	t, err := template.New(p.name).Option("missingkey=error").Parse(p.template)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	perSecond := max(int(math.Round(at.Capacity())), 1)
	err = t.Execute(&text, map[string]any{
		"Listen": listen, "Service": at.service, "Folder": at.folder, "Concurrent": at.Concurrent,
		"PerSecond": perSecond, "Twice": 2 * at.Concurrent, // of Concurrent
		// how many may wait for the service: half a second's worth
		"Line": max(perSecond/2, 1),
		"Rate": addressRate, "Burst": addressBurst, "TenSeconds": 10 * addressRate, // of an address
	})
	file := filepath.Join(at.folder, p.name+".conf")
	return file, errors.Join(err, os.WriteFile(file, text.Bytes(), 0o600))
}
