package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

const prometheusFrom = "apt-get install prometheus"

// TestPromtool: Prometheus accepts the rules, and every alert fires on what it is for and on nothing else.
func TestPromtool(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	promtool := needs.Program(t, "promtool", prometheusFrom)
	if out, err := exec.Command(promtool, "check", "rules", rulesFile).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	type series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	type sample struct {
		Labels string `json:"labels"`
		Value  int    `json:"value"`
	}
	type query struct {
		Expr string   `json:"expr"`
		At   string   `json:"eval_time"`
		Want []sample `json:"exp_samples"`
	}
	type test struct {
		Name     string   `json:"name"`
		Interval string   `json:"interval"`
		Series   []series `json:"input_series"`
		Queries  []query  `json:"promql_expr_test"`
	}
	minutes, weeks := &test{Name: "minutes", Interval: "1m"}, &test{Name: "a week", Interval: "2h"}
	// add lets time pass over some series, and says how many alerts of a name fire at the end. The series have an
	// instance of their own, so that all of them pass at the same time.
	add := func(alert string, firing int, pairs ...string) {
		c, at := minutes, "70m"
		if alert == "WeirShadowForgotten" {
			c, at = weeks, "178h"
		}
		instance := fmt.Sprintf(`instance="%s %s %d"`, alert, pairs[1], len(c.Queries))
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(pairs[i], `instance="a"`) {
				t.Errorf("%s has no instance", pairs[i])
			}
			c.Series = append(c.Series, series{strings.Replace(pairs[i], `instance="a"`, instance, 1), pairs[i+1]})
		}
		q := query{Expr: fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing",%s})`, alert, instance), At: at}
		if firing > 0 {
			q.Want = []sample{{"{}", firing}}
		}
		c.Queries = append(c.Queries, q)
	}
	fires := map[string]bool{}
	for _, c := range []struct{ alert, series, bad, good string }{
		{"WeirDown", `up{job="weir",instance="a"}`, "0x100", "1x100"},
		{"WeirCannotSave", `weir_store_failing{instance="a",part="bans"}`, "1x100", "0x100"},
		{"WeirReloadFailed", `weir_reloads_total{instance="a",result="failed"}`, "0x60 1x40", "1x100"},
		{"WeirBoundReached", `weir_bound_reached_total{instance="a",bound="b"}`, "0+1x100", "5x100"},
		{"WeirBoundReached", `weir_bound_reached_total{instance="a",bound="http_connections"}`, "0+1x100", "5x100"},
		{"WeirLogLinesLost", `weir_bound_reached_total{instance="a",bound="access_log_lines"}`, "0+1x100", "5x100"},
		{"WeirTracesLost", `weir_traces_spans_total{instance="a",result="dropped"}`, "0+1x100", "5x100"},
		{"WeirCostsOdd", `weir_quota_capped_costs_total{instance="a",throttle="t"}`, "0+1x100", "5x100"},
		{"WeirCostsOdd", `weir_bound_reached_total{instance="a",bound="http_cost"}`, "0+1x100", "5x100"},
		{"WeirUpstreamDown", `weir_http_upstream_healthy{instance="a",gate="g",server="s"}`, "0x100", "1x100"},
		{"WeirNameNotFound", `weir_http_upstream_failures_total{instance="a",gate="g",server="s",reason="resolve"}`,
			"0+1x100", "5x100"},
		{"WeirThrottleFails", `weir_throttle_errors_total{instance="a",throttle="t"}`, "0+1x100", "5x100"},
		{"WeirTableFull", `weir_quota_overflow_total{instance="a",throttle="t"}`, "0+1x100", "5x100"},
		{"WeirCollateral", `weir_bloom_collateral_ratio{instance="a",throttle="t"}`, "0.02x100", "0.005x100"},
		{"WeirPacketsNotLimited", `weir_xdp_attached{instance="a",interface="eth0"}`, "0x100", "1x100"},
		{"WeirEmergencySwitch", `weir_shadow_all{instance="a"}`, "0x60 1x10", "0x66 1x4"}, // within 10 minutes
		{"WeirShadowForgotten", `weir_throttle_shadow{instance="a",throttle="t"}`, "1x100", "1x50 0 1x49"},
		{"WeirUpstreamErrors", `weir_http_requests_total{instance="a",gate="g",code="5xx"}`, "0+1x100", "5x100"},
		{"WeirUpstreamUnhealthy", `weir_http_upstream_healthy{instance="a",gate="g",server="s"}`, "0x100", "1x100"},
		{"WeirUpstreamNotReached", `weir_tcp_upstream_failures_total{instance="a",gate="g"}`, "0+1x100", "5x100"},
		{"WeirUpstreamOverloaded", `weir_capacity_load_ratio{instance="a",gate="g"}`, "1.2x100", "0.9x100"},
		{"WeirMailNotDelivered", `weir_mail_deferred_total{instance="a",gate="g"}`, "0+1x100", "5x100"},
		{"WeirMailOld", `weir_mail_oldest_message_timestamp_seconds{instance="a"}`, "-86400x100", "0x100"},
		{"WeirMailUserStopped", `weir_mail_stops_total{instance="a",throttle="t"}`, "0x60 1x40", "1x100"},
		{"WeirMailUserUntold", `weir_mail_untold_total{instance="a",throttle="t"}`, "0x60 1x40", "1x100"},
		{"WeirMailUserFlagged", `weir_reach_flags_total{instance="a",throttle="t"}`, "0x60 1x40", "1x100"},
		{"WeirPasswordGuessing", `weir_smtp_logins_total{instance="a",gate="g",result="guessing"}`, "0+20x100", "0+1x100"},
		{"WeirMailUndecided", `weir_mail_queue_recipients{instance="a",state="held"}`, "5x100", "0+1x100"},
		{"WeirNodeLost", `weir_farm_node_up{instance="a",node="b"}`, "0x100", "1x100"},
		{"WeirNodesDiffer", `weir_farm_node_config_differs{instance="a",node="b"}`, "1x100", "0x100"},
		{"WeirClockOff", `weir_farm_offset_seconds{instance="a"}`, "-2x100", "0.5x100"},
		{"WeirStrangers", `weir_farm_strangers_total{instance="a"}`, "0+1x100", "5x100"},
		{"WeirEngineLost", `weir_farm_counters_up{instance="a"}`, "0x100", "1x100"},
	} {
		add(c.alert, 1, c.series, c.bad)
		add(c.alert, 0, c.series, c.good)
		fires[c.alert] = true
	}
	// Some need more than one series.
	several := func(alert string, firing int, pairs ...string) {
		add(alert, firing, pairs...)
		fires[alert] = true
	}
	delivered := `weir_mail_delivered_total{instance="a",gate="g"}`
	deferred := `weir_mail_deferred_total{instance="a",gate="g"}`
	several("WeirMailNotDelivered", 0, deferred, "0+1x100", delivered, "0+1x100")
	several("WeirMailNotDelivered", 1, deferred, "0+1x100", delivered, "7x100")
	ok := `weir_http_requests_total{instance="a",gate="g",code="2xx"}`
	failed := `weir_http_requests_total{instance="a",gate="g",code="5xx"}`
	several("WeirUpstreamErrors", 0, ok, "0+99x100", failed, "0+1x100")
	several("WeirUpstreamErrors", 1, ok, "0+90x100", failed, "0+10x100")
	admitted := `weir_http_route_requests_total{instance="a",gate="g",route="r",verdict="admit"}`
	refused := `weir_http_route_requests_total{instance="a",gate="g",route="r",verdict="refuse"}`
	none := `weir_http_route_requests_total{instance="a",gate="g",route="none",verdict="admit"}`
	broken := `weir_http_route_failed_total{instance="a",gate="g",route="r"}`
	several("WeirRouteErrors", 1, admitted, "0+90x100", broken, "0+10x100")
	several("WeirRouteErrors", 0, admitted, "0+99x100", broken, "0+1x100")
	several("WeirRouteErrors", 1, admitted, "0+90x100", broken, "0+10x100", refused, "0+900x100")
	several("WeirNoRoute", 1, admitted, "0+10x100", none, "0+30x100")
	several("WeirNoRoute", 0, admitted, "0+30x100", none, "0+10x100")
	one := `weir_http_upstream_healthy{instance="a",gate="g",server="one"}`
	two := `weir_http_upstream_healthy{instance="a",gate="g",server="two"}`
	several("WeirUpstreamDown", 0, one, "0x100", two, "1x100")
	several("WeirUpstreamUnhealthy", 1, one, "0x100", two, "1x100")
	retried := `weir_http_upstream_retries_total{instance="a",gate="g",server="two"}`
	several("WeirUpstreamRetries", 1, ok, "0+90x100", retried, "0+10x100")
	several("WeirUpstreamRetries", 0, ok, "0+99x100", retried, "0+1x100")
	// What comes to every public address, or has an alert of its own, is not a bound to be raised.
	for _, bound := range []string{"http_route", "http_unclear", "http_cost", "log_lines"} {
		several("WeirBoundReached", 0, fmt.Sprintf(`weir_bound_reached_total{instance="a",bound=%q}`, bound), "0+1x100")
	}
	open, limit := `process_open_fds{job="weir",instance="a"}`, `process_max_fds{job="weir",instance="a"}`
	several("WeirFilesRunOut", 1, open, "95x100", limit, "100x100")
	several("WeirFilesRunOut", 0, open, "80x100", limit, "100x100")
	clients, networks := `weir_bans_listed{instance="a",kind="client"}`, `weir_bans_listed{instance="a",kind="network"}`
	several("WeirBlockListFull", 1, clients, "50x100", networks, "45x100", `weir_bans_limit{instance="a"}`, "100x100")
	several("WeirBlockListFull", 0, clients, "50x100", networks, "5x100", `weir_bans_limit{instance="a"}`, "100x100")
	fast := `weir_farm_counters_seconds_bucket{instance="a",le="0.001"}`
	slow := `weir_farm_counters_seconds_bucket{instance="a",le="0.02"}`
	all := `weir_farm_counters_seconds_bucket{instance="a",le="+Inf"}`
	several("WeirEngineSlow", 1, fast, "0+50x100", slow, "0+100x100", all, "0+100x100")
	several("WeirEngineSlow", 0, fast, "0+100x100", slow, "0+100x100", all, "0+100x100")

	for _, r := range readRules(t) {
		if r.Alert != "" && !fires[r.Alert] {
			t.Errorf("no test fires %s", r.Alert)
		}
		delete(fires, r.Alert)
	}
	for alert := range fires {
		t.Errorf("there is no alert %s", alert)
	}
	// JSON is YAML too. Over a week, the rules are looked at less often: once a minute takes a minute.
	for interval, c := range map[string]*test{"1m": minutes, "2h": weeks} {
		text, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": interval,
			"tests": []*test{c}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "tests.yml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestPrometheus: a real Prometheus scrapes the console, loads the rules without an error and answers every query of
// the dashboard.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	prometheus := needs.Program(t, "prometheus", prometheusFrom)
	b := newBackend()
	b.farm = &fakeFarm{}
	console, _ := serve(t, Options{}, b)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	folder, address := t.TempDir(), needs.FreeAddress()
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- {job_name: weir, static_configs: [{targets: [%q]}]}
`, rules, strings.TrimPrefix(console, "http://")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	t.Cleanup(func() {
		if said, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s%v", said, err)
		}
	})
	cmd := exec.CommandContext(ctx, prometheus, "--config.file="+file, "--storage.tsdb.path="+folder+"/data",
		"--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()

	ask := func(path string, into any) error {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+path, nil)
		if err != nil {
			return err
		}
		req.Close = true
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s, %v", resp.Status, body, err)
		}
		return json.Unmarshal(body, into)
	}
	query := func(expr string) (results int, err error) {
		var answer struct {
			Data struct{ Result []any }
		}
		err = ask("/api/v1/query?query="+url.QueryEscape(expr), &answer)
		return len(answer.Data.Result), err
	}
	needs.Wait(t, "a scrape and a rule recorded from two", func() bool {
		n, err := query(`weir:throttle_verdicts:rate5m{throttle="plans"}`)
		return err == nil && n > 0
	})
	needs.Wait(t, "every rule evaluated without an error", func() bool {
		var groups struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		if err := ask("/api/v1/rules", &groups); err != nil {
			return false
		}
		seen := 0
		for _, g := range groups.Data.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					seen++
				}
			}
		}
		return seen == len(readRules(t))
	})
	chosen := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$gate", ".*", "$throttle", ".*")
	// This console has a quota and a farm, but no gates: the tables of metrics say that the rest exists. After a scrape
	// that took too long nothing has an answer, until the next one.
	needs.Wait(t, "20 queries of the dashboard have an answer", func() bool {
		answered := 0
		for _, p := range readDashboard(t).Panels {
			for _, target := range p.Targets {
				n, err := query(chosen.Replace(target.Expr))
				if err != nil {
					t.Fatalf("%s: %v", p.Title, err)
				}
				if n > 0 {
					answered++
				}
			}
		}
		return answered >= 20
	})
}
