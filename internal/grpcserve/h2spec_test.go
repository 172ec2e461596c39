package grpcserve

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// The cases of h2spec that do not apply, and why.
var notApplicable = map[string]string{
	"generic/2/2":   "it awaits content, and what is not a call of gRPC is answered by headers alone",
	"generic/2/3":   "the same",
	"http2/5.1.2/1": "its requests are answered at once, so that they never exceed the bound: TestAttacks does",
}

// TestH2Spec runs h2spec against the server. Its requests are not calls of gRPC; they are answered as such.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	host, port, _ := net.SplitHostPort(r.listen(t))
	var all sync.WaitGroup
	few := make(chan struct{}, 8) // most of the time goes by with waiting for what must not come
	cases, ran := h2cases(), 0
	for _, c := range cases {
		if notApplicable[c.name] != "" {
			continue
		}
		ran++
		all.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			if err := c.run(host, port); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if ran < 135 {
		t.Errorf("%d cases are too few", ran)
	}
}

// A h2case is a case of h2spec. It is what h2spec's own program would run, without what that prints.
type h2case struct {
	name string
	what *spec.TestCase
}

func h2cases() (all []h2case) {
	var walk func(g *spec.TestGroup)
	walk = func(g *spec.TestGroup) {
		for i, c := range g.Tests {
			all = append(all, h2case{fmt.Sprintf("%s/%d", g.ID(), i+1), c})
		}
		for _, sub := range g.Groups {
			walk(sub)
		}
	}
	for _, s := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		walk(s)
	}
	return slices.DeleteFunc(all, func(c h2case) bool { return c.what.Strict })
}

// run runs the case on a connection of its own. It has failed when it fails again with more time.
func (c *h2case) run(host, port string) (err error) {
	for _, patience := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second} {
		o := &config.Config{Host: host, Path: "/", Timeout: patience, MaxHeaderLen: 4000}
		o.Port, _ = strconv.Atoi(port)
		var conn *spec.Conn
		if conn, err = spec.Dial(o); err == nil {
			err = c.what.Run(o, conn)
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, spec.ErrSkipped) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s: %s", c.name, c.what.Desc, strings.ReplaceAll(err.Error(), "\n", "; "))
}
