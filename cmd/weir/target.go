package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"weir/config"
	"weir/console"
)

// A target is the running weir that a command talks to.
type target struct {
	Control string `placeholder:"PATH" help:"The control socket of the running weir. Default: $$WEIR_CONTROL, else as in the configuration."`
	Config  string `short:"c" placeholder:"FILE" help:"The configuration of the running weir, to find its control socket. Default: $$WEIR_CONFIG, else /etc/weir/weir.yaml."`

	URL       string `name:"url" group:"A weir on another machine" placeholder:"URL" help:"The console of a weir on another machine, as in https://weir.example.com:9000. Default: $$WEIR_URL."`
	TokenFile string `group:"A weir on another machine" placeholder:"FILE" help:"The file with the token for it, from weir token add. Default: the token is in $$WEIR_TOKEN."`
	CA        string `name:"ca" group:"A weir on another machine" placeholder:"FILE" help:"Certificates, in PEM, that sign the one of the console. Default: those that this machine trusts."`
}

// client finds the running weir. Flags win over the environment, and a socket that is named wins over a URL that is
// not.
func (t target) client() (*console.Client, error) {
	if t.URL != "" && (t.Control != "" || t.Config != "") {
		return nil, errors.New("--url is for a weir on another machine (leave out --control and -c)")
	}
	at := t.URL
	if at == "" && t.Control == "" && t.Config == "" && os.Getenv("WEIR_CONTROL") == "" {
		at = os.Getenv("WEIR_URL")
	}
	if at != "" {
		return t.remote(at)
	}
	if t.TokenFile != "" || t.CA != "" {
		return nil, errors.New("--token-file and --ca go with --url")
	}
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

// maxTokenFile bounds the file of a token.
const maxTokenFile = 4096

// remote returns a client for a weir on another machine.
func (t target) remote(at string) (*console.Client, error) {
	r := console.Remote{URL: at, Token: strings.TrimSpace(os.Getenv("WEIR_TOKEN"))}
	if t.TokenFile != "" {
		f, err := os.Open(t.TokenFile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
		if err != nil {
			return nil, err
		}
		r.Token = strings.TrimSpace(string(text))
	}
	if r.Token == "" {
		return nil, errors.New("there is no token for " + at + " (write --token-file FILE, or set WEIR_TOKEN; weir " +
			"token add makes one)")
	}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		r.Roots = x509.NewCertPool()
		if !r.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: there is no certificate in it", t.CA)
		}
	}
	return console.NewRemote(r)
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

// warn prints what an operator should know.
func (t *terminal) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(t.err, "warning:", printable(w))
	}
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
