package netlab

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// A Switch joins namespaces. Each has an interface Host, and the address that Address returns.
type Switch struct {
	Ends []Namespace
	hub  Namespace
}

// NewSwitch makes n namespaces that see each other.
func NewSwitch(t testing.TB, n int) *Switch {
	t.Helper()
	s := &Switch{hub: New(t)}
	err := s.hub.Do(func() error {
		return errors.Join(Command("ip", "link", "add", "hub0", "type", "bridge"),
			Command("ip", "link", "set", "hub0", "up"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		end, port := New(t), port(i)
		there := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), end.file.Fd())
		err := errors.Join(s.hub.Do(func() error {
			return errors.Join(
				Command("ip", "link", "add", port, "type", "veth", "peer", "name", Host, "netns", there),
				Command("ip", "link", "set", port, "master", "hub0"),
				Command("ip", "link", "set", port, "up"))
		}), end.Do(func() error {
			return errors.Join(Command("ip", "addr", "add", s.Address(i)+bitsV4, "dev", Host),
				Command("ip", "link", "set", Host, "up"))
		}))
		if err != nil {
			t.Fatal(err)
		}
		s.Ends = append(s.Ends, end)
	}
	return s
}

func port(i int) string { return fmt.Sprintf("port%d", i) }

// Address is the address of a namespace.
func (*Switch) Address(i int) string { return fmt.Sprintf("198.18.0.%d", i+1) }

// Plug connects a namespace to the switch, or takes it off.
func (s *Switch) Plug(t testing.TB, i int, in bool) {
	t.Helper()
	state := "down"
	if in {
		state = "up"
	}
	if err := s.hub.Do(func() error { return Command("ip", "link", "set", port(i), state) }); err != nil {
		t.Fatal(err)
	}
}
