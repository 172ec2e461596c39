package app

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"weir/console"
	"weir/internal/clock"
	"weir/notify"
)

// TestNoticesOfLoad: an overloaded gate is told of when that lasts for two looks, and is over when a minute was quiet.
// Load that comes and goes meanwhile is told once.
func TestNoticesOfLoad(t *testing.T) {
	t.Parallel()
	told := make(chan notify.Notice, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var said struct{ Notices []notify.Notice }
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			t.Error(err)
		}
		for _, n := range said.Notices {
			told <- n
		}
	}))
	defer s.Close()
	notifier, err := notify.New(notify.Options{{Webhook: &notify.Webhook{URL: s.URL, Secret: "a secret of sixteen"}}},
		notify.Env{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n := &notices{notifier: notifier, lasting: map[condition]*lasting{}, turned: map[string]uint64{}}
	away := uint64(5)
	looks := func(load float64, more uint64, times int) {
		for range times {
			away += more
			found := map[condition]string{}
			n.load(&console.Status{Gates: []console.GateStatus{{Gate: ":80",
				Capacity: &console.Capacity{Load: load, TurnedAway: away}}, {Gate: ":81"}}}, found)
			n.compare(found, time.Now())
		}
	}
	looks(2, 0, 1)   // what was before is unknown
	looks(2, 7, 1)   // once is nothing
	looks(0.5, 0, 1) // and it is over
	looks(0.5, 7, 3) // some cannot pay: no load
	looks(2, 0, 3)   // nobody is turned away
	looks(2, 7, 4)
	looks(0.5, 0, 11)
	looks(2, 7, 4)
	looks(0.5, 0, 13)
	n.stop(t.Context())
	close(told)
	var all []notify.Notice
	for one := range told {
		all = append(all, one)
	}
	if len(all) != 2 || all[0].Event != notify.Attack || all[0].Over || all[0].About != ":80" || !all[1].Over {
		t.Errorf("%+v", all)
	}
}
