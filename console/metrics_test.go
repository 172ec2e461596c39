package console

import (
	"strings"
	"testing"
	"time"

	"weir"
)

func TestMetrics(t *testing.T) {
	url, m := serve(t, Options{}, newBackend())
	m.BoundReached("waiting")
	m.Count("weir_reloads_total", 1, "failed")
	h := m.HTTP(":8080")
	h.InFlight(2)
	h.Waiting(1)
	h.Done(429, weir.Refuse, 3*time.Millisecond, time.Second)
	h.Done(999, weir.Admit, 0, 0)
	_, body, _ := get(t, "GET", url+"/metrics", "")
	for _, want := range []string{
		`weir_throttle_verdicts_total{mode="enforce",policy="",throttle="plans",verdict="refuse"} 2`,
		`weir_throttle_verdicts_total{mode="enforce",policy="per-hour",throttle="plans",verdict="refuse"} 1`,
		`weir_throttle_verdicts_total{mode="shadow",policy="per-hour",throttle="plans",verdict="wait"} 0`,
		`weir_throttle_verdicts_total{mode="shadow",policy="",throttle="plans",verdict="wait"} 2`,
		`weir_throttle_errors_total{throttle="plans"} 1`,
		`weir_throttle_expired_waits_total{throttle="plans"} 4`,
		`weir_throttle_shadow{throttle="plans"} 1`,
		`weir_quota_accounts{throttle="plans"} 7`,
		`weir_quota_waiting{throttle="plans"} 5`,
		`weir_quota_overflow_total{throttle="plans"} 6`,
		`weir_quota_accepted_accounts{throttle="plans"} 4`,
		`weir_quota_probation_accounts{throttle="plans"} 3`,
		`weir_quota_pushed_out_total{throttle="plans"} 8`,
		`weir_http_requests_total{code="4xx",gate=":8080",verdict="refuse"} 1`,
		`weir_http_requests_total{code="other",gate=":8080",verdict="admit"} 1`,
		`weir_http_requests_in_flight{gate=":8080"} 2`,
		`weir_http_requests_waiting{gate=":8080"} 1`,
		`weir_http_throttle_delay_seconds_bucket{gate=":8080",le="0.005"} 2`,
		`weir_http_request_duration_seconds_count{gate=":8080"} 2`,
		`weir_bound_reached_total{bound="waiting"} 1`,
		`weir_reloads_total{result="failed"} 1`,
		`weir_reloads_total{result="ok"} 0`,
		`version="test"`,
		`go_goroutines `,
		`go_gc_heap_live_bytes `,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	m.Forget("http", "gate", ":8080")
	if _, body, _ := get(t, "GET", url+"/metrics", ""); strings.Contains(body, ":8080") {
		t.Error("series of a forgotten gate are still there")
	}
}
