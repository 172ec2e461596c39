package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// TestLendQuotas: quotas with exact policies are tied to the engine, and let go of it when a reload changes that.
func TestLendQuotas(t *testing.T) {
	t.Parallel()
	redis := newRedisEngine(t) // which is never started
	a, _, file := exactNode(t, "redis://"+redis.address, "")
	m := a.member.Load()
	topic := topicOf("lend", "plans")
	kept := func() bool {
		stop, err := m.Keep(topic, sharedBans{m})
		if err == nil {
			stop()
		}
		return err != nil
	}
	if !m.lenders.has("plans") || !kept() {
		t.Error("the quota is not tied to the engine")
	}
	write := func(old, new string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.Reread(); err != nil {
			t.Fatal(err)
		}
	}
	was := m.lenders.byName["plans"]
	write("limit: 30000", "limit: 40000")
	if m.lenders.byName["plans"] != was {
		t.Error("a reload that changes a limit replaced the lender")
	}
	write("farm: exact", "farm: broadcast")
	if m.lenders.has("plans") || kept() {
		t.Error("the quota is still tied to the engine")
	}
	write("farm: broadcast", "farm: exact")
	if !m.lenders.has("plans") || !kept() {
		t.Error("the quota is not tied to the engine again")
	}
	if err := m.leave(t.Context()); err != nil {
		t.Error(err)
	}
	if m.lenders.has("plans") {
		t.Error("a node that has left is tied to the engine")
	}
}

// TestLendEnvoysRules: rules that a gate for Envoy has from files are tied to the engine where it says so, until the
// gate is gone.
func TestLendEnvoysRules(t *testing.T) {
	t.Parallel()
	redis := newRedisEngine(t) // which is never started
	a, _, file := exactNode(t, "redis://"+redis.address, "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(filepath.Dir(file), "limits.yaml")
	if err := os.WriteFile(rules, []byte("domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: hour, "+
		"requests_per_unit: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tied := func(gates string) (n int) {
		t.Helper()
		if err := os.WriteFile(file, []byte(string(text)+gates), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.Reread(); err != nil {
			t.Fatal(err)
		}
		needs.Wait(t, "removed gates are gone", func() bool {
			m := a.member.Load()
			m.lenders.mu.Lock()
			defer m.lenders.mu.Unlock()
			n = len(m.lenders.byName)
			return gates != "" || n == 1
		})
		return n
	}
	gate := `rls: [{listen: "127.0.0.1:0", config: ` + rules
	if n := tied(gate + "}]\n"); n != 1 {
		t.Errorf("%d are tied to the engine, where the gate counts alone", n)
	}
	if n := tied(gate + ", farm: exact}]\n"); n != 2 {
		t.Errorf("%d are tied to the engine", n)
	}
	tied("")
}

// TestRuns: the engine is told of all nodes that count by it. A run has another name after a restart, and says whose it
// is.
func TestRuns(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	var all []string
	for _, a := range f.nodes {
		all = append(all, a.member.Load().Self().Name)
	}
	slices.Sort(all)
	for _, a := range f.nodes {
		m := a.member.Load()
		needs.Wait(f.t, "all nodes are known", func() bool {
			names := m.Keeping(topicBans)
			slices.Sort(names)
			return slices.Equal(names, all)
		})
		stop, err := m.Keep("alone", sharedBans{m})
		if err != nil {
			t.Fatal(err)
		}
		needs.Wait(f.t, "nobody else keeps it", func() bool {
			return slices.Equal(m.Keeping("alone"), []string{m.Self().Name})
		})
		stop()
	}
	if got := runOf(farm.Node{Name: "a", Boot: 7}); got != "a+7" || farm.Home(got) != "a" {
		t.Error(got)
	}
	long := farm.Node{Name: strings.Repeat("a", farm.MaxNode), Boot: 1<<64 - 1}
	if n := len(runOf(long)); n > farm.MaxRun {
		t.Errorf("a run is named with %d bytes, %d are possible", n, farm.MaxRun)
	}
}
