//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// withCapabilities runs f in a namespace of its own, with a BPF file system in a folder and these capabilities alone.
func withCapabilities(t *testing.T, dir string, f func() error, capabilities ...int) error {
	return netlab.New(t).Do(func() error {
		if err := mountBPF(dir); err != nil {
			return err
		}
		var all [2]unix.CapUserData
		for _, c := range capabilities {
			all[c/32].Effective |= 1 << (c % 32)
			all[c/32].Permitted |= 1 << (c % 32)
		}
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &all[0]); err != nil {
			return err
		}
		return f()
	})
}

// TestCapabilities: the three are enough, and without one of them it is named.
func TestCapabilities(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	o := slow()
	o.Pin = t.TempDir()
	if err := withCapabilities(t, o.Pin, func() error {
		for range 2 {
			g, err := New(o, Env{})
			if err != nil {
				return err
			}
			defer g.Close()
			if err := g.Attach(); err != nil {
				return err
			}
			if err := g.Ban(netip.MustParsePrefix("198.18.9.0/24"), time.Time{}); err != nil {
				return err
			}
			if c, err := g.Counters(); err != nil {
				return fmt.Errorf("%v: %w", c, err)
			}
			if err := g.Close(); err != nil {
				return err
			}
		}
		if list, err := List(o.Pin); err != nil || len(list) != 1 || list[0].Bans != 1 {
			return fmt.Errorf("%v: %w", list, err)
		}
		return Detach(o.Pin, "lo")
	}, capBPF, capNetAdmin, capPerfmon); err != nil {
		t.Error(err)
	}
	for want, has := range map[string][]int{"[CAP_BPF]": {capNetAdmin, capPerfmon},
		"[CAP_NET_ADMIN]": {capBPF, capPerfmon}, "[CAP_PERFMON]": {capBPF, capNetAdmin},
		"[CAP_BPF CAP_NET_ADMIN CAP_PERFMON]": {}} {
		g, err := New(o, Env{})
		if err != nil {
			t.Fatal(err)
		}
		err = withCapabilities(t, o.Pin, g.Attach, has...)
		if missing, ok := errors.AsType[*MissingCapabilities](err); !ok || fmt.Sprint(missing.Missing) != want {
			t.Errorf("says %v, want %s", err, want)
		}
		g.Close()
	}
}

func TestMissingCapabilities(t *testing.T) {
	needs.Unwatched(t)
	for _, c := range []struct {
		status, want string
	}{
		{"Name:\tx\nCapInh:\t0\nCapEff:\t000001ffffffffff\n", "[]"},
		{"CapEff:\t0000000000000000\n", "[CAP_BPF CAP_NET_ADMIN CAP_PERFMON]"},
		{"CapEff:\t0000000000200000\n", "[CAP_NET_ADMIN]"},                     // CAP_SYS_ADMIN
		{"CapEff:\t0000008000001000\n", "[CAP_PERFMON]"},                       // CAP_BPF, CAP_NET_ADMIN
		{"CapEff:\t000000c000001000\n", "[]"},                                  // the three
		{"CapEff:\t00000000a80425fb\n", "[CAP_BPF CAP_NET_ADMIN CAP_PERFMON]"}, // a container
	} {
		got, err := missingCapabilities(c.status)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%q: %v, %v, want %s", c.status, got, err, c.want)
		}
	}
	for _, status := range []string{"", "CapEff:\tzz\n", "CapPrm:\t0\n"} {
		if _, err := missingCapabilities(status); err == nil {
			t.Errorf("%q: no error", status)
		}
	}
	err := error(&MissingCapabilities{[]string{"CAP_BPF", "CAP_PERFMON"}})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "CAP_BPF, CAP_PERFMON") {
		t.Error(err)
	}
	if err := error(&UnsupportedKernel{"Linux 4.19", "Linux 5.15"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestNewEnough(t *testing.T) {
	needs.Unwatched(t)
	for release, want := range map[string]bool{"5.15.0-1-amd64": true, "5.14.99": false, "6.1": true,
		"6.18.44-fc": true, "4.19.0": false, "5.4": false, "10.0": true, "": false} {
		if got := newEnough(release, 5, 15); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
