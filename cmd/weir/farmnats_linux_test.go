package main

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"weir/internal/testkit/needs"
)

// over writes configurations of nodes that meet at a NATS server.
func (c *crop) over(nats string) {
	c.t.Helper()
	c.plant()
	for i := range c.nodes {
		text, err := os.ReadFile(c.config[i])
		if err != nil {
			c.t.Fatal(err)
		}
		var own []string
		for line := range strings.Lines(string(text)) {
			switch field := strings.TrimSpace(line); {
			case strings.HasPrefix(field, "peers:"):
				line = "  nats: " + nats + "\n"
			case strings.HasPrefix(field, "listen:") && strings.Contains(field, ":7400"):
				continue
			}
			own = append(own, line)
		}
		if err := os.WriteFile(c.config[i], []byte(strings.Join(own, "")), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// natsServer runs a NATS server that leads the nodes of a farm together, in the clients' namespace.
func (c *crop) natsServer() (connect func() *nats.Conn) {
	c.t.Helper()
	at := c.Address(c.clients())
	var s *server.Server
	end := c.Ends[c.clients()]
	if err := end.Do(func() (err error) {
		if s, err = server.NewServer(&server.Options{Host: at, Port: 4222, NoLog: true, NoSigs: true}); err != nil {
			return err
		}
		s.Start()
		if s.Addr() == nil {
			return errors.New("it does not listen")
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Shutdown)
	return func() (conn *nats.Conn) {
		c.t.Helper()
		if err := end.Do(func() (err error) { conn, err = nats.Connect("nats://" + at + ":4222"); return err }); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(conn.Close)
		return conn
	}
}

// TestFarmTakesNoReplays: what others recorded at a NATS server and send again brings back no node that is gone. A
// phantom would be lost at once, and a policy with on_loss: closed grants nothing then.
func TestFarmTakesNoReplays(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := &crop{grange: newGrange(t, 3)}
	c.serves = quotaOf(`{name: p, limit: 1000, period: 365d, on_loss: closed}`)
	connect := c.natsServer()
	c.over("nats://" + c.Address(c.clients()) + ":4222")
	eavesdropper := connect()
	var mu sync.Mutex
	var record []*nats.Msg
	heard, err := eavesdropper.Subscribe("weir.all.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		record = append(record, m)
	})
	if err != nil {
		t.Fatal(err)
	}
	c.start(0, 1, 2)
	c.settled(0, 1, 2)
	mu.Lock()
	said := len(record) // no goodbye is among them
	mu.Unlock()
	c.nodes[2].stop(t)
	for _, i := range []int{0, 1} { // they forget what they heard of it
		c.nodes[i].stop(t)
	}
	c.start(0, 1)
	c.settled(0, 1)
	if err := heard.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	before := c.status(0).Received
	mu.Lock()
	defer mu.Unlock()
	for _, m := range record[:said] {
		if err := eavesdropper.Publish(m.Subject, m.Data); err != nil {
			t.Fatal(err)
		}
	}
	c.eventually("it is all heard", func() bool { return c.status(0).Received > before+uint64(said) })
	for i := range 2 {
		for _, n := range c.status(i).Nodes {
			if n.Name == "c" && n.State != "left" {
				t.Errorf("%c sees c, which is gone: %+v", 'a'+i, n)
			}
		}
		if code := c.ask(i, "x"); code != http.StatusOK {
			t.Errorf("%c: %d", 'a'+i, code)
		}
	}
}
