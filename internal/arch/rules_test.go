package arch

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestRules: the rules see what they are there to see.
func TestRules(t *testing.T) {
	imports := func(paths ...string) pkg { return pkg{Name: "x", Imports: paths} }
	for name, c := range map[string]struct {
		check func(pkg, int) []string
		at    string
		pkg   pkg
		want  string // part of the complaint; empty when there is none
	}{
		"down":              {importsGoDown, "throttle/quota", imports("weir", "fmt"), ""},
		"up":                {importsGoDown, "throttle/quota", imports("weir/policy"), "above it"},
		"sibling":           {importsGoDown, "throttle/quota", imports("weir/throttle/bloom"), "sibling"},
		"sibling gates":     {importsGoDown, "gate/httpgate", imports("weir/gate/smtpgate"), "sibling"},
		"store from sqlite": {importsGoDown, "store/sqlite", imports("weir/store"), ""},
		"tool":              {importsGoDown, "app", imports("weir/internal/gen"), "building and testing only"},
		"suite": {importsGoDown, "farm/nats", imports("weir/farm/farmtest"),
			"building and testing only"},
		"tools may import":  {importsGoDown, "internal/gen", imports("weir/config"), ""},
		"suites may import": {importsGoDown, "farm/farmtest", imports("weir/farm"), ""},
		"no floor":          {importsGoDown, "app", imports("weir/nowhere"), "no floor"},
		"clock":             {noClock, "throttle/quota", imports("weir/internal/clock"), "time comes in"},
		"clock in a gate":   {noClock, "gate/httpgate", imports("weir/internal/clock"), ""},
		"gate, mechanism":   {gatesKnowNoMechanism, "gate/httpgate", imports("weir/throttle/quota"), "ask a policy"},
		"gate, its half":    {gatesKnowNoMechanism, "gate/xdpgate", imports("weir/throttle/bloom"), ""},
		"gate, other half":  {gatesKnowNoMechanism, "gate/xdpgate", imports("weir/throttle/quota"), "ask a policy"},
		"gate, engine":      {gatesKnowNoMechanism, "gate/smtpgate", imports("weir/store/sqlite"), "contract"},
		"gate, policy":      {gatesKnowNoMechanism, "gate/httpgate", imports("weir/policy"), ""},
		"metrics in a gate": {prometheusStays, "gate/httpgate",
			imports("github.com/prometheus/client_golang/prometheus"), "console collect"},
		"metrics in console": {prometheusStays, "console", imports("github.com/prometheus/client_golang/prometheus"),
			""},
		"one module": {oneModule, "throttle/quota",
			imports("golang.org/x/sync/a", "golang.org/x/sync/b", "net/http"), ""},
		"two modules":             {oneModule, "throttle/quota", imports("golang.org/x/sync/a", "example.com/m"), "one module"},
		"a server and its client": {oneModule, "farm/nats", imports("golang.org/x/sync/a", "example.com/m"), ""},
		"and a third": {oneModule, "farm/nats",
			imports("golang.org/x/sync/a", "example.com/m", "example.com/n"), "one module"},
		"two further up": {oneModule, "app", imports("golang.org/x/sync/a", "example.com/m"), ""},
		"vague":          {namesSay, "internal/util", imports(), "says nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			c.pkg.path = c.at
			floor, _ := floorOf(c.at)
			got := strings.Join(c.check(c.pkg, floor), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("complains %q, want %q", got, c.want)
			}
		})
	}
}

func TestInFile(t *testing.T) {
	for name, c := range map[string]struct {
		src      string
		timeless bool
		want     string
	}{
		"now":        {`import "time"; func f() { _ = time.Now() }`, true, "time.Now"},
		"renamed":    {`import t "time"; func f() { t.Sleep(1) }`, true, "time.Sleep"},
		"as a value": {`import "time"; var now = time.Now`, true, "time.Now"},
		"allowed":    {`import "time"; func f() { _ = time.Now() }`, false, ""},
		"unix":       {`import "time"; func f() { _ = time.Unix(0, 0) }`, true, ""},
		"own field": {`import "time"; type s struct{ Now int }; func f(time s) { _ = time.Now }; var _ = time.UTC`,
			true, ""},
		"init":     {`func init() {}`, false, "func init"},
		"a method": {`type s struct{}; func (s) init() {}`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "x.go", "package x; "+c.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(inFile(fset, file, c.timeless), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("complains %q, want %q", got, c.want)
			}
		})
	}
}
