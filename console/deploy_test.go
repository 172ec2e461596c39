package console

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Files for those who watch weir.
const (
	rulesFile     = "../deploy/prometheus/weir.rules.yml"
	dashboardFile = "../deploy/grafana/weir.json"
)

// A rule is a recording rule or an alert.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// A panel is what matters here of a panel of Grafana's.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

type dashboard struct {
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 {
		t.Fatal("there are no panels")
	}
	return d
}

// served returns the labels of every metric, by its name: those of the tables, and those of the runtime from a scrape.
func served(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{"up": nil} // Prometheus makes it for each target
	for name, o := range observed() {
		known[name] = o.labels
	}
	for _, w := range written {
		known[w.name] = strings.Fields(w.labels)
	}
	address, _ := serve(t, Options{}, newBackend())
	_, body, _ := get(t, "GET", address+"/metrics", "")
	for _, name := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(body, -1) {
		if _, listed := known[name[1]]; !listed {
			known[name[1]] = []string{"version", "goversion"}
		}
	}
	return known
}

var (
	promText     = regexp.MustCompile(`"[^"]*"`)
	promSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}`)
	promBy       = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	promRange    = regexp.MustCompile(`\[[^\]]*\]|\boffset \w+`)
	promName     = regexp.MustCompile(`\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(\s*\()?`)
	promWords    = []string{"and", "or", "unless", "by", "without", "on", "ignoring", "bool"}
)

// metricsOf returns the names of the metrics in an expression, and the labels that it asks for, by name.
func metricsOf(expr string) (names []string, labels []string) {
	expr = promText.ReplaceAllString(expr, `""`)
	for _, s := range promSelector.FindAllStringSubmatch(expr, -1) {
		for matcher := range strings.SplitSeq(s[2], ",") {
			labels = append(labels, strings.TrimSpace(strings.FieldsFunc(matcher, isOperator)[0]))
		}
	}
	for _, b := range promBy.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(b[1], ",") {
			labels = append(labels, strings.TrimSpace(l))
		}
	}
	expr = promSelector.ReplaceAllString(expr, "$1")
	expr = promBy.ReplaceAllString(promRange.ReplaceAllString(expr, ""), "")
	for _, found := range promName.FindAllStringSubmatch(expr, -1) {
		if found[1] == "" && !slices.Contains(promWords, found[0]) {
			names = append(names, found[0])
		}
	}
	return names, labels
}

func isOperator(r rune) bool { return strings.ContainsRune("=!~", r) }

// checkQuery reports what an expression asks for that is not there.
func checkQuery(expr string, known map[string][]string) (mistakes []string) {
	names, asked := metricsOf(expr)
	if len(names) == 0 {
		return []string{"asks for no metric"}
	}
	has := []string{"instance", "job"}
	for _, name := range names {
		labels, ok := known[name]
		if of, bucket := strings.CutSuffix(name, "_bucket"); !ok && bucket && strings.HasSuffix(of, "_seconds") {
			labels, ok = known[of]
			has = append(has, "le")
		}
		if !ok {
			mistakes = append(mistakes, "there is no metric "+name)
		}
		has = append(has, labels...)
	}
	for _, l := range asked {
		if !slices.Contains(has, l) {
			mistakes = append(mistakes, "none of the metrics has the label "+l)
		}
	}
	return mistakes
}

// The check itself finds metrics and labels that do not exist.
func TestCheckQuery(t *testing.T) {
	t.Parallel()
	known := map[string][]string{"weir_a_total": {"gate"}, "weir_b_seconds": {"gate"}, "up": nil}
	for expr, want := range map[string]string{
		`sum by (gate) (rate(weir_a_total{gate=~"x|no_such",instance!="{}"}[5m] offset 7d)) > 0.5`:   "",
		`histogram_quantile(0.9, sum by (le, gate) (rate(weir_b_seconds_bucket[$__rate_interval])))`: "",
		`up{job="weir"} == 0 unless on (instance) weir_a_total`:                                      "",
		`rate(weir_c_total[5m])`:            "there is no metric weir_c_total",
		`weir_a_total_bucket`:               "there is no metric weir_a_total_bucket",
		`weir_a_total{verdict="x"}`:         "none of the metrics has the label verdict",
		`sum by (verdict) (weir_a_total)`:   "none of the metrics has the label verdict",
		`weir_a_total / weir_d{gate="a,b"}`: "there is no metric weir_d",
		`weir_a_total and bool_x`:           "there is no metric bool_x",
		`1 + time()`:                        "asks for no metric",
	} {
		if got := strings.Join(checkQuery(expr, known), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// TestRules: alerts and recording rules use metrics and labels that weir serves, and an alert says what it means.
func TestRules(t *testing.T) {
	t.Parallel()
	known := served(t)
	seen := map[string]bool{}
	for _, r := range readRules(t) {
		name := r.Record + r.Alert
		if seen[name] || name == "" || (r.Record != "" && r.Alert != "") {
			t.Errorf("%q: a rule has one name of its own", name)
		}
		seen[name] = true
		for _, mistake := range checkQuery(r.Expr, known) {
			t.Errorf("%s: %s", name, mistake)
		}
		if r.Record != "" {
			known[r.Record] = []string{"instance", "throttle", "verdict", "mode", "gate", "route", "code"}
			continue
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", name, s)
		}
		if r.Annotations["summary"] == "" || !strings.HasSuffix(r.Annotations["description"], ".") {
			t.Errorf("%s: says %q", name, r.Annotations)
		}
	}
}

// TestDashboard: the panels ask for metrics and labels that weir serves, name only labels that are left in the answer,
// and do not lie on top of each other.
func TestDashboard(t *testing.T) {
	t.Parallel()
	known, d := served(t), readDashboard(t)
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	legend, variable := regexp.MustCompile(`\{\{(\w+)\}\}`), regexp.MustCompile(`\$(\w+)`)
	for _, p := range d.Panels {
		if other, twice := ids[p.ID]; twice {
			t.Errorf("%s has the id of %s", p.Title, other)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q or outside, at %d,%d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%s has no description or no query", p.Title)
		}
		for _, q := range p.Targets {
			for _, mistake := range checkQuery(q.Expr, known) {
				t.Errorf("%s: %s", p.Title, mistake)
			}
			for _, v := range variable.FindAllStringSubmatch(q.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, v[0])
				}
			}
			_, labels := metricsOf(q.Expr)
			for _, l := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s: the query leaves no label %s", p.Title, l[1])
				}
			}
		}
	}
}
