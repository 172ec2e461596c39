package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/lab/simulate"
	"weir/throttle/outbreak"
)

// TestAdviceIsAConfiguration: what the simulator recommends can be written into a configuration as it stands.
func TestAdviceIsAConfiguration(t *testing.T) {
	p, err := new(outbreak.Options).Params("", "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.NewReplay(simulate.ReplayOptions{Params: p, Share: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range 2000 { // 20 users write to somebody new now and then
		to := fmt.Sprintf("p%d@example.org", i%7*(i/500+1))
		e := simulate.Entry{At: begin.Add(time.Duration(i) * time.Minute), User: fmt.Sprint("user", i%20),
			To: []string{to}}
		if err := r.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	advice := r.Study().Advice
	c, err := Parse("advice.yaml",
		[]byte("smtp: [{listen: '127.0.0.1:2525', next_hop: 127.0.0.1:25, throttles: [outgoing]}]\n"+advice.Config))
	if err != nil {
		t.Fatalf("%v\n%s", err, advice.Config)
	}
	o := c.Throttles["outgoing"].Mail
	got, err := o.Params("", "")
	if err != nil || got.Stop != advice.Params.Stop || got.MaxMSlack != advice.Params.MaxMSlack ||
		got.WorkingSet != advice.Params.WorkingSet {
		t.Errorf("%+v, %v; the advice is %+v", got, err, advice.Params)
	}
	if !strings.Contains(advice.Config, "throttles:") {
		t.Error(advice.Config)
	}
}
