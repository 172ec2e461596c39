// Package h2test has the cases of h2spec, for tests of servers that speak HTTP/2.
package h2test

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// A Case is a case of h2spec. It is what h2spec's own program would run, without what that prints.
type Case struct {
	Name   string // as in http2/4.2/3
	Strict bool   // it asks for more than a server must do
	Odd    bool   // it is in a group of such cases
	test   *spec.TestCase
}

// Cases returns all cases.
func Cases() (all []Case) {
	var walk func(g *spec.TestGroup, odd bool)
	walk = func(g *spec.TestGroup, odd bool) {
		odd = odd || g.Strict
		for i, c := range g.Tests {
			all = append(all, Case{fmt.Sprintf("%s/%d", g.ID(), i+1), c.Strict, odd, c})
		}
		for _, sub := range g.Groups {
			walk(sub, odd)
		}
	}
	for _, s := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		walk(s, false)
	}
	return all
}

// Each calls do for all cases, a few at a time: most of the time goes by with waiting for what must not come.
func Each(cases []Case, do func(c *Case)) {
	var all sync.WaitGroup
	few := make(chan struct{}, 8)
	for _, c := range cases {
		all.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			do(&c)
		})
	}
	all.Wait()
}

// patience is how long a case may wait: each time that it fails, it is tried once more, for longer.
var patience = [...]time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}

// Run runs the case on a connection of its own. A server may be slow, or be done with a stream sooner than the case
// expects: it has failed when it fails again and again, and is given more time. Where once is set, it is tried once.
func (c *Case) Run(address string, tls, once bool) (err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	tries := patience[:]
	if once {
		tries = tries[:1]
	}
	for _, patience := range tries {
		o := &config.Config{Host: host, Path: "/", Timeout: patience, MaxHeaderLen: 4000, TLS: tls, Insecure: tls}
		o.Port, _ = strconv.Atoi(port)
		var conn *spec.Conn
		if conn, err = spec.Dial(o); err == nil {
			err = c.test.Run(o, conn)
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, spec.ErrSkipped) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s: %s", c.Name, c.test.Desc, strings.ReplaceAll(err.Error(), "\n", "; "))
}
